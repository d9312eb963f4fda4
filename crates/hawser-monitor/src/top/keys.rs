//! The effects of keys.

use hawser_control::{LinkState, Scheduled};
use hawser_types::{LinkIndex, LinkUse};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::flows::FlowKey;
use super::input::{DoomedRule, Entered, Input, Line, List, Quantity, REMOVE, Then, Whose};
use super::layout::body_height;
use super::settings::PolicyKey;
use super::state::{State, View};
use super::{events, help, settings, why};

/// Request to the terminal after a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wish {
    /// Draw the changes.
    Show,
    /// Draw everything anew.
    Repaint,
    /// Suspend, and return to the shell for a while.
    Suspend,
    /// Quit.
    Quit,
}

impl State {
    /// Takes a key.
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Show;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control {
            match key.code {
                KeyCode::Char('c') => return Wish::Quit,
                KeyCode::Char('z') => return Wish::Suspend,
                KeyCode::Char('l') => return Wish::Repaint,
                _ => {}
            }
        }
        match self.input.take() {
            Some(input) => self.enter(input, key),
            None if control => {}
            None if key.code == KeyCode::Char('q') => return Wish::Quit,
            None => self.command(key.code),
        }
        Wish::Show
    }

    /// Handles a key in a dialog.
    fn enter(&mut self, mut input: Input, key: KeyEvent) {
        let (entered, then) = match &mut input {
            Input::Help => return self.read_help(key.code),
            Input::Line(line) => (line.handle_key(key), line.then.clone()),
            Input::List(list) => (list.handle_key(key), list.then.clone()),
        };
        if let (Input::Line(line), Then::Filter) = (&input, &then) {
            self.filter = line.text.to_lowercase();
        }
        match entered {
            Entered::Nothing => self.input = Some(input),
            Entered::GivenUp if then == Then::Filter => self.filter.clear(),
            Entered::GivenUp => {}
            Entered::Text(text) => match then.change(&text, self.save) {
                Ok(Some((request, words))) => self.change(request, words),
                Ok(None) => {}
                Err(fault) => self.complain(&fault),
            },
        }
    }

    fn read_help(&mut self, key: KeyCode) {
        let by = match key {
            KeyCode::Up | KeyCode::Char('k') => -1,
            KeyCode::Down | KeyCode::Char('j') => 1,
            _ => return self.scroll = 0,
        };
        self.input = Some(Input::Help);
        self.scroll_by(by, help::LINES.len());
    }

    /// Handles a key outside of dialogs: a global one, or one of the view.
    fn command(&mut self, key: KeyCode) {
        match key {
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(View::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => {
                let place = digit.to_digit(10).unwrap_or(1) as usize - 1;
                self.show_at(place);
            }
            KeyCode::Char('?') | KeyCode::F(1) => {
                self.scroll = 0;
                self.input = Some(Input::Help);
            }
            KeyCode::Char('/') => self.ask_line("show only what has", Then::Filter),
            KeyCode::Char('s') => self.toggle_save(),
            KeyCode::Char('S') => self.pick_policy(&PolicyKey::Scheduler(Scheduled::Sessions)),
            KeyCode::Char('C') => self.pick_policy(&PolicyKey::Scheduler(Scheduled::Connections)),
            KeyCode::Char('T') => self.pick_policy(&PolicyKey::TransportChoice),
            KeyCode::Char('G') => self.pick_policy(&PolicyKey::Gateway),
            KeyCode::Char('P') => self.pick_policy(&PolicyKey::Profile),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-PAGE),
            KeyCode::PageDown => self.step(PAGE),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Esc if self.view == View::Why && self.about.is_some() => self.ask_why(None),
            KeyCode::Esc => self.filter.clear(),
            key => match self.view {
                View::Links => self.command_link(key),
                View::Traffic => self.command_flow(key),
                View::Policy => self.command_policy(key),
                View::Why | View::Events => {}
            },
        }
    }

    fn command_link(&mut self, key: KeyCode) {
        let KeyCode::Char(key) = key else {
            return;
        };
        match key {
            'n' => self.use_link(LinkUse::Normal),
            'p' => self.use_link(LinkUse::Prefer),
            'b' => self.use_link(LinkUse::Backup),
            'x' => self.use_link(LinkUse::Never),
            'd' => self.direction = self.direction.next(),
            'w' => self.ask_link(Quantity::Weight, "weight, 1 to 1000"),
            'c' => self.ask_link(Quantity::Price, "price, such as 2.5EUR/GB, or 0"),
            'a' => self.ask_link(
                Quantity::Allowance,
                "allowance a month, such as 10GB, or none",
            ),
            _ => {}
        }
    }

    fn command_flow(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char('o') => self.order = self.order.next(),
            KeyCode::Enter => {
                if let Some(flow) = self.flow() {
                    self.ask_why(Some(flow.key));
                }
            }
            KeyCode::Char('r') => self.ask_only(),
            _ => {}
        }
    }

    fn command_policy(&mut self, key: KeyCode) {
        let keys = settings::keys(self.seen.policy.as_ref());
        let selected = self.policy.place(&keys).and_then(|place| keys.get(place));
        match (key, selected) {
            (KeyCode::Enter, Some(selected)) => self.pick_policy(selected),
            (KeyCode::Char('x') | KeyCode::Delete, Some(PolicyKey::Rule(number))) => {
                self.ask_removal(*number);
            }
            _ => {}
        }
    }

    /// Shows the view that is `by` places further on.
    fn turn(&mut self, by: usize) {
        let here = View::ALL.iter().position(|view| *view == self.view);
        self.show_at((here.unwrap_or(0) + by) % View::ALL.len());
    }

    fn show_at(&mut self, place: usize) {
        if let Some(view) = View::ALL.get(place) {
            self.show(*view);
        }
    }

    /// Moves the selection by this many places, or scrolls by this many lines.
    fn step(&mut self, by: isize) {
        match self.view {
            View::Links => {
                let links = self.shown_links();
                let keys: Vec<LinkIndex> = links.iter().map(|link| link.index).collect();
                self.links.step(&keys, by);
            }
            View::Traffic => {
                let keys: Vec<FlowKey> = self.shown_flows().into_iter().map(|it| it.key).collect();
                self.flows.step(&keys, by);
            }
            View::Policy => {
                let keys = settings::keys(self.seen.policy.as_ref());
                self.policy.step(&keys, by);
            }
            View::Why => self.scroll_by(by, why::lines(self).len()),
            View::Events => self.scroll_by(by, events::lines(self).count()),
        }
    }

    /// Scrolls by `by` in a text of `lines` lines.
    fn scroll_by(&mut self, by: isize, lines: usize) {
        let room = usize::from(body_height(self.size.1));
        let last = lines.saturating_sub(room);
        self.scroll = self.scroll.saturating_add_signed(by).min(last);
    }

    fn toggle_save(&mut self) {
        self.save = !self.save;
        let file = self
            .seen
            .policy
            .as_ref()
            .and_then(|policy| policy.file.as_deref());
        let words = match (self.save, file) {
            (false, _) => "changes hold until the daemon ends".to_owned(),
            (true, Some(file)) => format!("changes are saved in {file}, too"),
            (true, None) => {
                "rules are saved, too; no --config was named to save others in".to_owned()
            }
        };
        self.say(words);
    }

    fn ask_line(&mut self, title: &str, then: Then) {
        let title = title.to_owned();
        self.input = Some(Input::Line(Line {
            title,
            text: String::new(),
            then,
        }));
    }

    fn ask_link(&mut self, what: Quantity, words: &str) {
        match self.link().map(|link| link.name.clone()) {
            Some(link) => self.ask_line(&format!("{link}: {words}"), Then::Link { link, what }),
            None => self.complain("no link is selected"),
        }
    }

    /// Asks for the only link of the selected application's connections.
    fn ask_only(&mut self) {
        let Some(flow) = self.flow() else {
            return self.complain("nothing is selected");
        };
        let whose = match Whose::of(flow.program.as_deref(), &flow.destination) {
            Ok(whose) => whose,
            Err(fault) => return self.complain(&fault),
        };
        let links = self.seen.links().iter();
        let usable = links.filter(|link| link.state != LinkState::Unused);
        let choices: Vec<String> = usable.map(|link| link.name.clone()).collect();
        let title = format!("{whose} only over");
        self.ask_choice(title, choices, None, Then::Only(whose));
    }

    fn ask_removal(&mut self, number: u64) {
        let mut rules = self.seen.policy.iter().flat_map(|policy| &policy.rules);
        let Some(rule) = rules.find(|rule| rule.number == number) else {
            return;
        };
        let doomed = DoomedRule {
            number,
            rule: rule.rule.clone(),
            is_written: rule.source == "user",
        };
        let title = format!("rule {number}: {}, {}", rule.when, rule.then);
        let choices = vec!["keep it".to_owned(), REMOVE.to_owned()];
        self.ask_choice(title, choices, None, Then::RemoveRule(doomed));
    }

    /// Asks for a new value of one line of the policy.
    fn pick_policy(&mut self, key: &PolicyKey) {
        let Some(policy) = &self.seen.policy else {
            return self.complain("the daemon has not told its policy");
        };
        if let Some(choice) = settings::choice(policy, key) {
            self.ask_choice(
                choice.title.to_owned(),
                choice.known,
                choice.now,
                choice.then,
            );
        }
    }

    fn ask_choice(&mut self, title: String, choices: Vec<String>, now: Option<String>, then: Then) {
        if choices.is_empty() {
            return self.complain("there is nothing to choose from");
        }
        let place = choices.iter().position(|it| Some(it) == now.as_ref());
        let place = place.unwrap_or(0);
        self.input = Some(Input::List(List {
            title,
            choices,
            place,
            then,
        }));
    }
}

/// Lines per page key.
const PAGE: isize = 10;
