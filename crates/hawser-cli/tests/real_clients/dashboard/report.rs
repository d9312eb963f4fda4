//! A report as a page: a file without a server.

use std::time::Duration;

use hawser_monitor::report::{Chart, Page, Series};
use serde_json::json;

use super::looks::{DESK, names_in_the_tree, tab_to};
use crate::chromium::Chromium;
use crate::clients::is_without;
use crate::network::Namespace;
use crate::program::{Place, until};

#[test]
fn a_report_draws_itself_in_light_and_dark_and_asks_no_server() {
    let test = "a_report_draws_itself_in_light_and_dark_and_asks_no_server";
    if is_without(&["chromium", "ip", "nsenter"], test) {
        return;
    }
    let Some(network) = Namespace::new() else {
        return hawser_skip::skip(
            &format!("real_clients::{test}"),
            "no network namespaces here",
        );
    };
    let place = Place::new();
    let file = place.path("report.html");
    std::fs::write(&file, report().render()).unwrap();
    let mut page = Chromium::start(&place, &network);
    page.open(&format!("file://{}", file.display()));
    until(
        "it is drawn",
        || page.eval(&format!("{LINES}.length")) == 2,
        String::new,
    );
    let mut looks = Vec::new();
    for scheme in ["light", "dark"] {
        page.show_as(DESK, scheme);
        let found = page.eval(include_str!("audit.js"));
        assert_eq!(found, json!([]), "{scheme}");
        names_in_the_tree(&mut page, scheme);
        looks.push(page.text(&format!(
            "{LINES}.map((it) => getComputedStyle(it).stroke).join()
                + getComputedStyle(document.body).backgroundColor"
        )));
    }
    assert_ne!(looks[0], looks[1]);
    let names = page.text("document.querySelector('.chart-legend').textContent");
    assert!(
        names.contains("tcp link 1") && names.contains("<hawser> first"),
        "{names}"
    );

    tab_to(
        &mut page,
        "document.activeElement.className === 'chart-slider'",
    );
    page.press("ArrowLeft");
    let said = page.text("document.activeElement.getAttribute('aria-valuetext')");
    assert_eq!(said, "at 4 s: tcp link 1 8.00 Mbit/s, <hawser> first –");
    for kind in ["Runtime.exceptionThrown", "Log.entryAdded"] {
        assert_eq!(page.events(kind), Vec::<serde_json::Value>::new());
    }
    let urls = page.events("Network.requestWillBeSent");
    let url = |event: &serde_json::Value| event["request"]["url"].as_str().unwrap().to_owned();
    assert!(
        urls.iter().all(|event| url(event).starts_with("file://")),
        "{urls:?}"
    );
}

fn report() -> Page {
    let series = |name: &str, rates: Vec<f64>| Series {
        name: name.to_owned(),
        rates,
    };
    Page {
        title: "run wifi-lte".to_owned(),
        text: "tcp link 1   8 Mbit/s\n<hawser>     12 Mbit/s\n".to_owned(),
        charts: vec![Chart {
            title: "get: rate over time".to_owned(),
            step: Duration::from_millis(250),
            series: vec![
                series("tcp link 1", vec![8e6; 20]),
                series(
                    "<hawser> first",
                    (1..13).map(|n| f64::from(n) * 1e6).collect(),
                ),
            ],
        }],
    }
}

/// The lines that are drawn.
const LINES: &str = "[...document.querySelectorAll('svg[role=img] path')]
    .filter((path) => path.getAttribute('d')?.includes('L') && path.style.stroke)";
