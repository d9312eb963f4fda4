//! `hawser setup`: sets up a fresh installation by at most four questions.

mod desktop;
mod questions;
mod record;
mod steps;
mod systemd;

use anyhow::Context as _;
use hawser_link::links::LinkMonitor;

use crate::args::{SetupArgs, Undo};
use hawser_daemon::setup::{Setup, show};
use questions::{Answers, Ground, Role};
use record::Record;
use steps::Steps;

/// Asks the questions, carries out the answers, and tells how to undo them; or undoes earlier runs.
pub(crate) async fn run(setup: &Setup, args: &SetupArgs) -> anyhow::Result<()> {
    setup.state.prepare()?;
    let mut record = Record::open(&setup.state)?;
    if let Some(which) = args.undo {
        return undo(setup, &mut record, which);
    }
    let (_monitor, links) = LinkMonitor::start()
        .await
        .context("can't follow the links")?;
    let ground = Ground::look(setup, &links.borrow());
    let answers = Answers::find(args, &ground)?;
    ground.check(&answers)?;
    let mut steps = Steps {
        setup,
        record: &mut record,
        lines: Vec::new(),
    };
    if let Role::Client {
        gateway: Some(source),
        ..
    } = &answers.role
    {
        steps.enrol(source, links).await?;
    }
    steps.configure(&answers)?;
    if answers.boot {
        steps.start_at_boot(&answers)?;
    } else {
        steps.say_how_to_start(&answers);
    }
    if answers.desktop {
        steps.tell_desktop()?;
    }
    let mut text = String::from("\nDone:\n");
    for line in &steps.lines {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&next(&answers, &ground));
    show(&text)
}

/// Returns advice on what to do next.
fn next(answers: &Answers, ground: &Ground) -> String {
    let sudo = if ground.is_root { "sudo " } else { "" };
    let command = match &answers.role {
        Role::Gateway { .. } => format!(
            "`{sudo}hawser invite` prints an invite for a client; enter it there in `hawser setup`. \
             Open TCP and UDP port 7443 in all firewalls, including your provider's."
        ),
        Role::Client { .. } if answers.is_captured => {
            "Try: curl https://example.org/, then `hawser links`".to_owned()
        }
        Role::Client { .. } => {
            "Try: curl -x socks5h://127.0.0.1:1080 https://example.org/, then `hawser links`"
                .to_owned()
        }
    };
    format!("{command}\n`{sudo}hawser setup --undo` undoes all of this.\n")
}

fn undo(setup: &Setup, record: &mut Record, which: Undo) -> anyhow::Result<()> {
    let steps = record.newest_first(which);
    if steps.is_empty() {
        return show("there is nothing to take back\n");
    }
    // A step that fails stays recorded with the earlier ones, so that undo can be tried again.
    for step in steps {
        let line = steps::take_back(setup, &step)?;
        record.forget(&step)?;
        show(&format!("{line}\n"))?;
    }
    Ok(())
}
