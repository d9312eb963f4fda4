//! Filter of the log: levels by module, and by the fields of spans.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, ensure};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Decides which lines are written: those that their module's level allows, and those in a span
/// that a directive such as `[session{id=1a2b3c4d}]=debug` names.
///
/// The levels of modules do not apply to Hawser's spans: a span exists if any line in the span may
/// be written.
pub(crate) struct LogFilter {
    modules: Targets,
    spans: Vec<SpanDirective>,
    /// The greatest level of lines of Hawser.
    most: LevelFilter,
    /// The greatest level of lines in a span that a directive names.
    most_in_spans: LevelFilter,
}

/// A directive for the lines in certain spans.
#[derive(Debug, PartialEq, Eq)]
struct SpanDirective {
    name: String,
    /// Names and values of fields, all of which the span must have.
    fields: Vec<(String, String)>,
    level: LevelFilter,
}

/// The fields of a span whose name is in a directive.
struct Named {
    fields: BTreeMap<&'static str, String>,
    /// The greatest level of lines in the span.
    level: LevelFilter,
}

impl FromStr for LogFilter {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (spans, modules): (Vec<_>, Vec<_>) = split(text, ',')
            .into_iter()
            .partition(|one| one.trim_start().starts_with('['));
        let modules: Targets = modules.join(",").parse()?;
        let spans: Vec<SpanDirective> = spans
            .into_iter()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let off = LevelFilter::OFF;
        let most_in_spans = spans.iter().map(|it| it.level).max().unwrap_or(off);
        let own = modules.iter().filter(|(name, _)| name.starts_with(OWN));
        let own = own.map(|(_, level)| level).chain(modules.default_level());
        Ok(Self {
            most: own.max().unwrap_or(off).max(most_in_spans),
            most_in_spans,
            modules,
            spans,
        })
    }
}

impl LogFilter {
    /// Returns the greatest level of the lines that may be written.
    pub(crate) fn greatest(&self) -> LevelFilter {
        let of_modules = self.modules.iter().map(|(_, level)| level);
        let of_modules = of_modules.chain(self.modules.default_level()).max();
        of_modules.unwrap_or(LevelFilter::OFF).max(self.most)
    }

    /// Returns whether a span may be there or a line be written, by what is known of it in advance.
    fn may_be_written(&self, what: &Metadata<'_>) -> bool {
        // Lines of the crate `log` come with the name of their module only here.
        let is_in_span = what.is_event() && what.name() != "log record";
        self.allows(what) || (is_in_span && *what.level() <= self.most_in_spans)
    }

    fn allows(&self, what: &Metadata<'_>) -> bool {
        if what.is_span() && what.target().starts_with(OWN) {
            return *what.level() <= self.most;
        }
        self.modules.would_enable(what.target(), what.level())
    }

    /// Returns the greatest level of lines in a span with these fields.
    fn level_in(&self, name: &str, fields: &BTreeMap<&'static str, String>) -> LevelFilter {
        let is_meant = |it: &&SpanDirective| {
            let mut wanted = it.fields.iter();
            it.name == name && wanted.all(|(key, value)| fields.get(key.as_str()) == Some(value))
        };
        let meant = self.spans.iter().filter(is_meant);
        meant.map(|it| it.level).max().unwrap_or(LevelFilter::OFF)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogFilter {
    fn register_callsite(&self, what: &'static Metadata<'static>) -> Interest {
        if self.may_be_written(what) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, what: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.may_be_written(what)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.greatest())
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let name = attributes.metadata().name();
        if let Some(span) = context.span(id)
            && self.spans.iter().any(|it| it.name == name)
        {
            let mut fields = BTreeMap::new();
            attributes.record(&mut Collect(&mut fields));
            let level = self.level_in(name, &fields);
            span.extensions_mut().insert(Named { fields, level });
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(named) = span.extensions_mut().get_mut::<Named>()
        {
            values.record(&mut Collect(&mut named.fields));
            named.level = self.level_in(span.name(), &named.fields);
        }
    }

    fn event_enabled(&self, event: &Event<'_>, context: Context<'_, S>) -> bool {
        let what = event.metadata();
        // Lines of the crate `log` have passed the filter with the name of their module.
        if self.spans.is_empty() || what.target() == "log" || self.allows(what) {
            return true;
        }
        let level_in = |extensions: &tracing_subscriber::registry::Extensions<'_>| {
            extensions.get::<Named>().map(|named| named.level)
        };
        let mut around = context.event_scope(event).into_iter().flatten();
        around.any(|span| level_in(&span.extensions()).is_some_and(|it| *what.level() <= it))
    }
}

/// Collects fields as text.
struct Collect<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Collect<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl FromStr for SpanDirective {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not of the form [SPAN{{FIELD=VALUE}}]=LEVEL");
        let inner = text.trim().strip_prefix('[').with_context(wrong)?;
        let (span, level) = inner.rsplit_once("]=").with_context(wrong)?;
        let (name, fields) = match span.split_once('{') {
            Some((name, fields)) => (name, fields.strip_suffix('}').with_context(wrong)?),
            None => (span, ""),
        };
        ensure!(!name.is_empty(), wrong());
        let fields = split(fields, ',').into_iter().filter(|it| !it.is_empty());
        let field = |text: &str| {
            let (key, value) = text.split_once('=')?;
            let quoted = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            Some((key.trim().to_owned(), quoted.unwrap_or(value).to_owned()))
        };
        Ok(Self {
            name: name.to_owned(),
            fields: fields
                .map(field)
                .collect::<Option<_>>()
                .with_context(wrong)?,
            level: level.parse().with_context(wrong)?,
        })
    }
}

/// Splits text at each `separator` outside brackets, braces and quotation marks.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut depth, mut is_quoted) = (0_i32, false);
    let is_end = |c: char| {
        match c {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth -= 1,
            _ => {}
        }
        c == separator && depth == 0 && !is_quoted
    };
    text.split(is_end).collect()
}

/// Prefix of the names of Hawser's crates.
const OWN: &str = "hawser";

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing::{Span, debug, debug_span, field, info, info_span};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `work` logs under this filter.
    fn logged(filter: &str, work: impl FnOnce()) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let filter: LogFilter = filter.parse().unwrap();
        let log = tracing_subscriber::fmt()
            .with_max_level(filter.greatest())
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(log.finish().with(filter), work);
        let bytes = lines.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn no_level_is_open_that_nothing_asks_for() {
        for (filter, greatest) in [
            ("info", LevelFilter::INFO),
            ("warn,aya=error", LevelFilter::WARN),
            ("warn,hawser_net=debug", LevelFilter::DEBUG),
            ("info,[session{id=1}]=trace", LevelFilter::TRACE),
        ] {
            let filter: LogFilter = filter.parse().unwrap();
            assert_eq!(filter.greatest(), greatest);
            let log = tracing_subscriber::fmt().with_max_level(filter.greatest());
            let log = log.finish().with(filter);
            assert_eq!(Subscriber::max_level_hint(&log), Some(greatest));
        }
    }

    /// Two sessions with a stream each, of the clients ann and bob.
    fn sessions() {
        for (name, id) in [("ann", "1a"), ("bob", "2b")] {
            let client = info_span!(parent: None, "client", id = field::Empty);
            let session = info_span!(parent: &client, "session", %id);
            session.in_scope(|| debug!("unnamed"));
            client.record("id", name);
            session.in_scope(|| info!("begun"));
            let stream = debug_span!(parent: &session, "stream", number = 4);
            stream.in_scope(|| debug!("refused"));
        }
        debug!("elsewhere");
    }

    #[test]
    fn one_session_is_followed_with_all_that_is_in_it() {
        let followed = logged("info,[session{id=2b}]=debug", sessions);
        let expected = [
            r#"INFO client{id="ann"}:session{id=1a}: begun"#,
            "DEBUG client:session{id=2b}: unnamed",
            r#"INFO client{id="bob"}:session{id=2b}: begun"#,
            r#"DEBUG client{id="bob"}:session{id=2b}:stream{number=4}: refused"#,
        ];
        assert_eq!(followed, expected);
        assert_eq!(logged("[session{id=2b}]=debug", sessions), expected[1..]);
    }

    #[test]
    fn a_field_counts_that_is_recorded_later() {
        let followed = logged(r#"[client{id="ann"}]=info"#, sessions);
        let expected = [r#"INFO client{id="ann"}:session{id=1a}: begun"#];
        assert_eq!(followed, expected);
    }

    #[test]
    fn without_lines_of_debug_there_are_no_spans_of_debug() {
        let found = || info!(is_there = !debug_span!("stream").is_disabled());
        assert_eq!(logged("info", found), ["INFO is_there=false"]);
        assert_eq!(logged("info,tokio=trace", found), ["INFO is_there=false"]);
        let in_spans = "info,[session]=debug";
        assert_eq!(logged(in_spans, found), ["INFO is_there=true"]);
    }

    #[test]
    fn a_line_that_its_module_allows_has_its_spans_whatever_their_module_allows() {
        let work = || {
            let session = info_span!(target: "hawser_net", "session", id = 7);
            session.in_scope(|| debug!(target: "hawser_front", "line"));
        };
        let lines = logged("warn,hawser_front=debug", work);
        assert_eq!(lines, ["DEBUG session{id=7}: line"]);
        assert_eq!(logged("warn", || drop(Span::current())), [""; 0]);
    }

    #[test]
    fn directives_that_do_not_parse_say_how_they_should_look() {
        for wrong in [
            "[session{id=1a]=debug",
            "[session]",
            "[]=info",
            "[a{b}]=info",
        ] {
            let error = format!("{:#}", wrong.parse::<LogFilter>().err().unwrap());
            assert!(error.contains("[SPAN{FIELD=VALUE}]=LEVEL"), "{error}");
        }
        assert!("[session]=loud".parse::<LogFilter>().is_err());
        let two: SpanDirective = r#"[stream{number=4,kind="a,b"}]=trace"#.parse().unwrap();
        let fields = [("number", "4"), ("kind", "a,b")];
        let expected = fields.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(two.fields, expected);
    }
}
