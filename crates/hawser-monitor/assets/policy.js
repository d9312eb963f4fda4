// The policy: schedulers, gateway, profile, rules.

import { send, sendFields } from './change.js';
import { find, h, isChanged, keep, offer, printable, setChoices, setText } from './dom.js';

let links = '';

/** Shows the policy, except fields that the user is editing; null if the daemon has no links to
 * choose from. */
export function showPolicy(policy, status) {
  const isChoosing = policy !== null && status.role === 'client';
  find('policy').hidden = !isChoosing;
  if (!isChoosing) return;
  for (const select of choices()) showChoice(select, policy);
  const more = (policy.rule_count ?? 0) - policy.rules.length;
  setText(
    find('rules-rest'),
    more > 0 ? `And ${more} more, which hawser rule list shows.` : 'None but the built-in ones.',
  );
  find('rules-rest').hidden = policy.rules.length > 0 && more <= 0;
  find('rule-table').hidden = policy.rules.length === 0;
  keep(find('rule-table'), policy.rules, (rule) => JSON.stringify(rule), makeRule);
  const names = status.links.map((link) => link.name);
  if (links !== names.join('\n')) {
    links = names.join('\n');
    showTargets();
  }
}

const choices = () => [...find('policy-form').querySelectorAll('select')];

/** One select: the current value, and the alternatives. */
function showChoice(select, policy) {
  const of = select.name;
  const chosen = policy[of];
  select.closest('label').hidden = !chosen;
  if (!chosen) return;
  const known = of === 'gateway' ? GATEWAY : policy[KNOWN[of] ?? `${of}_known`];
  setChoices(select, known.includes(chosen) ? known : [chosen, ...known]);
  offer(select, chosen);
}

function applyPolicy(event) {
  event.preventDefault();
  const form = find('policy-form');
  const save = form.elements.save.checked;
  const told = choices().filter(
    (select) => !select.closest('label').hidden && (save || isChanged(select)),
  );
  const requests = told.map(({ name: of, value }) => {
    if (of === 'gateway') return { request: 'set-gateway', usage: value, save };
    if (of === 'transport') return { request: 'set-transport', transport: value, save };
    if (of === 'profile') return { request: 'set-profile', profile: value, save };
    return { request: 'set-scheduler', of, scheduler: value, save };
  });
  const said = form.querySelector('.said');
  if (requests.length) sendFields(said, told, requests);
  else setText(said, 'Nothing was changed.');
}

/** A rule in words. A saved rule is removed only by a second press. */
function makeRule(rule) {
  const isWritten = rule.source === 'user';
  const said = h('p', { class: 'said', role: 'status' });
  let isSure = !isWritten;
  const button = h('button', { onclick: async () => {
    if (!isSure) {
      isSure = true;
      return setText(button, 'Remove it from the configuration');
    }
    const done = await send(said, {
      request: 'remove-rule',
      number: rule.number,
      rule: rule.rule,
      save: isWritten,
    });
    if (done) find('rules-title').focus();
  } }, 'Remove');
  button.addEventListener('blur', () => {
    isSure = !isWritten;
    setText(button, 'Remove');
  });
  const name = rule.name ? `${rule.name}: ` : '';
  const cell = (label, kind, text) =>
    h('td', { class: kind, 'data-label': label }, h('bdi', {}, printable(text)));
  const act = h('td', { class: 'act' }, rule.source === 'profile' ? null : button, said);
  return { node: h('tbody', {}, h('tr', {}, cell('No.', 'number', rule.number),
    cell('Applies to', 'words', name + rule.when), cell('Says', 'words', rule.then),
    cell('From', 'words', rule.source), act)), update() {} };
}

/** Possible texts after "which is", for the chosen kind. */
function showTargets() {
  const { effect, target } = find('rule-form').elements;
  setChoices(target, EFFECTS[effect.value].of ?? links.split('\n'));
  showRule();
}

/** The rule in the configuration's syntax. */
function ruleText() {
  const { key, value, effect, target, name } = find('rule-form').elements;
  const isNumber = (text) => NUMBERED.includes(key.value) && /^\d+$/.test(text);
  const values = value.value
    .split(',')
    .map((one) => (isNumber(one.trim()) ? one.trim() : quote(one.trim())));
  const list = values.length > 1 ? `[${values.join(', ')}]` : values[0];
  const lines = [`${key.value} = ${list}`, `${EFFECTS[effect.value].key} = ${quote(target.value)}`];
  if (name.value.trim()) lines.unshift(`name = ${quote(name.value.trim())}`);
  return lines.join('\n');
}

const showRule = () => setText(find('rule-text'), printableLines(ruleText()));

const printableLines = (text) => text.split('\n').map(printable).join('\n');

/** A string in TOML, which has JSON's escapes. */
const quote = (text) => JSON.stringify(text).replaceAll('\u007f', '\\u007f');

async function addRule(event) {
  event.preventDefault();
  const form = find('rule-form');
  const done = await send(form.querySelector('.said'), {
    request: 'add-rule',
    rule: ruleText(),
    save: form.elements.save.checked,
  });
  if (!done) return;
  form.elements.value.value = '';
  showRule();
}

const KNOWN = { profile: 'profiles_known', transport: 'transports_known' };
const GATEWAY = ['always', 'auto', 'never'];
/** Conditions whose values are numbers. */
const NUMBERED = ['port', 'user'];
const KEYS = ['program', 'executable', 'domain', 'address', 'port', 'user', 'cgroup', 'protocol'];
const EFFECTS = {
  'only over the link': { key: 'only' },
  'never over the link': { key: 'never' },
  'not over links': { key: 'avoid', of: ['metered', 'calls'] },
  'by the way': { key: 'mode', of: ['direct', 'bonded', 'auto'] },
  'as of the class': { key: 'class', of: ['real-time', 'interactive', 'bulk'] },
};

{
  const form = find('rule-form');
  setChoices(form.elements.key, KEYS);
  setChoices(form.elements.effect, Object.keys(EFFECTS));
  form.elements.effect.addEventListener('change', showTargets);
  form.addEventListener('input', showRule);
  form.addEventListener('submit', addRule);
  find('policy-form').addEventListener('submit', applyPolicy);
}
