// What each link carries, once a second.

import { cells } from './chart.js';

const found = /[#&]token=([^&\s]+)/.exec(location.hash);
if (found) {
  sessionStorage.setItem('hawser-token', found[1]);
  history.replaceState(null, '', location.pathname);
}

async function look() {
  const response = await fetch('/api/v1/ask', {
    method: 'POST',
    headers: { Authorization: `Bearer ${sessionStorage.getItem('hawser-token') ?? ''}` },
    body: JSON.stringify({ api: 1, request: 'status' }),
  });
  if (!response.ok) throw new Error(await response.text());
  const { links } = await response.json();
  const rows = links.map(({ name, state, traffic }) => cells([name, state, traffic.up_bps, traffic.down_bps]));
  document.getElementById('links').replaceChildren(...rows);
  document.getElementById('fault').textContent = '';
}

setInterval(() => look().catch((error) => (document.getElementById('fault').textContent = error.message)), 1000);
