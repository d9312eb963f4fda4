//! The keys, explained.

pub(super) const LINES: [&str; 19] = [
    "Everywhere",
    "  1-5, Tab          another view; arrows, j, k, PgUp, PgDn, Home, End move",
    "  /                 show only what has some text; Esc shows all again",
    "  s                 save changes in the configuration, too, or no more",
    "  S, C              what chooses links for sessions, for connections",
    "  T, G, P           transport of sessions, use of the gateway, profile of rules",
    "  Ctrl-L, Ctrl-Z    draw anew; back to the shell for a while",
    "  q, Ctrl-C         quit; the daemon goes on",
    "Links",
    "  n, p, b, x        use it normally, prefer it, as backup, never",
    "  d                 these keys are for both directions, up, or down",
    "  w, c, a           weight, price, allowance a month",
    "Traffic",
    "  Enter             why it uses these links",
    "  r                 a rule: this program only over one link",
    "  o                 in another order",
    "Policy",
    "  Enter             another choice",
    "  x                 remove the rule",
];
