// Obstacles to reading or using the page as it is shown now: one line for each.
(() => {
  const found = [];
  const say = (what, node) =>
    found.push(`${what}: ${node.cloneNode(false).outerHTML ?? node}`.slice(0, 240));
  const all = (selector) => [...document.querySelectorAll(selector)];
  const isShown = (node) =>
    node.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const shown = (selector) => all(selector).filter(isShown);

  if (!document.documentElement.lang) found.push('the page has no language');
  if (!document.title) found.push('the page has no title');
  const ids = all('[id]').map((node) => node.id);
  for (const id of ids)
    if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`the id ${id} stands twice`);
  for (const attribute of ['aria-labelledby', 'aria-describedby', 'aria-controls', 'for']) {
    for (const node of all(`[${attribute}]`)) {
      for (const id of node.getAttribute(attribute).split(/\s+/)) {
        if (!document.getElementById(id)) say(`${attribute} leads nowhere`, node);
      }
    }
  }
  for (const node of all('[tabindex]')) if (node.tabIndex > 0) say('an order of its own', node);
  if (shown('header').length !== 1) found.push('no header');
  if (shown('main').length + shown('#refused').length < 1) found.push('nothing is the main part');

  // Names.
  const labelled = (node) =>
    (node.getAttribute('aria-labelledby') ?? '').split(/\s+/).filter(Boolean)
      .map((id) => document.getElementById(id)?.textContent ?? '').join(' ');
  const name = (node) =>
    (
      labelled(node) ||
      node.getAttribute('aria-label') ||
      [...(node.labels ?? [])].map((label) => label.textContent).join(' ') ||
      (/^(BUTTON|A|SUMMARY)$/.test(node.tagName) ? node.textContent : '')
    ).trim();
  for (const node of shown('button, a[href], select, input, textarea, summary'))
    if (!name(node)) say('no name', node);
  for (const node of shown('section')) if (!name(node)) say('no name', node);
  for (const node of all('img')) if (!node.hasAttribute('alt')) say('no alternative text', node);
  for (const node of shown('svg')) {
    if (!node.closest('[aria-hidden=true]') && !(node.getAttribute('role') === 'img' && name(node)))
      say('no name', node);
  }

  // Headings and tables.
  let level = 0;
  for (const node of shown('h1, h2, h3, h4, h5, h6')) {
    const next = Number(node.tagName[1]);
    if (!node.textContent.trim()) say('an empty heading', node);
    if (next > level + 1) say(`a heading after one of level ${level}`, node);
    level = next;
  }
  if (shown('h1').length !== 1) found.push('not one first heading');
  for (const table of shown('table')) {
    const heads = [...table.querySelectorAll('th')];
    if (!heads.length) say('a table without heads', table);
    for (const head of heads) {
      if (!head.scope) say('a head of nothing', head);
      if (!head.textContent.trim()) say('an empty head', head);
    }
    const width = table.tHead?.rows[0].cells.length;
    for (const row of table.querySelectorAll('tbody > tr')) {
      const cells = [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
      if (row.closest('table') === table && cells !== width)
        say(`a row of ${cells} where ${width} are`, row);
    }
  }

  // Contrast.
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const read = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return { r, g, b, a: a / 255 };
  };
  const over = (top, ground) => {
    const mix = (key) => top[key] * top.a + ground[key] * (1 - top.a);
    return { r: mix('r'), g: mix('g'), b: mix('b'), a: 1 };
  };
  const ground = (node) => {
    if (!node)
      return read(
        getComputedStyle(document.documentElement).colorScheme === 'dark' ? 'black' : 'white',
      );
    const own = read(getComputedStyle(node).backgroundColor);
    return own.a >= 1 ? own : over(own, ground(node.parentElement));
  };
  const light = ({ r, g, b }) => {
    const part = (value) =>
      (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const contrast = (colour, node) => {
    const behind = ground(node);
    const [a, b] = [light(over(read(colour), behind)), light(behind)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const least = (style) => {
    const px = parseFloat(style.fontSize);
    return px >= 24 || (px >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !isShown(node) || node.closest(':disabled')) continue;
    const style = getComputedStyle(node);
    const ratio = contrast(node.namespaceURI.endsWith('svg') ? style.fill : style.color, node);
    if (ratio < least(style))
      say(`contrast ${ratio.toFixed(2)} of "${texts.currentNode.data.trim()}"`, node);
  }
  for (const node of shown('input[placeholder]')) {
    const ratio = contrast(getComputedStyle(node, '::placeholder').color, node);
    if (ratio < 4.5) say(`contrast ${ratio.toFixed(2)} of what stands in`, node);
  }
  for (const node of shown(
    'button, select, input:not([type=range], [type=checkbox], [type=radio])',
  )) {
    const ratio = contrast(getComputedStyle(node).borderTopColor, node.parentElement);
    if (ratio < 3) say(`contrast ${ratio.toFixed(2)} of the border`, node);
  }
  for (const node of shown('figure svg[role=img] path')) {
    const { stroke } = getComputedStyle(node);
    if (stroke !== 'none' && contrast(stroke, node.closest('figure')) < 3)
      say('contrast of a line', node);
  }

  // Room.
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth)
    found.push(`${root.scrollWidth} pixels wide in a window of ${innerWidth}`);
  for (const node of shown(
    'button, select, input:not([type=range], [type=checkbox], [type=radio])',
  )) {
    const { width, height } = node.getBoundingClientRect();
    if (Math.min(width, height) < 24) say(`only ${width} × ${height}`, node);
  }
  return found;
})()
