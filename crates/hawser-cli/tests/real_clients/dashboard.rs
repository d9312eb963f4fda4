//! The dashboard of a real daemon in a real browser, over two links of 24 and 8 Mbit/s.

mod forms;
mod looks;
mod report;
mod stage;

use std::time::Instant;

use serde_json::json;

use stage::Stage;

use crate::chromium::Chromium;
use crate::program::until;

#[test]
fn charts_move_and_a_link_set_to_never_empties_while_the_transfer_goes_on() {
    let test = "charts_move_and_a_link_set_to_never_empties_while_the_transfer_goes_on";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let mut download = stage.download("curl");
    stage.wait_for("both links carry something", &busy(&["dsl", "lte"]));
    let outline = "document.querySelector('#chart-down svg[role=img] g path').getAttribute('d')";
    let before = stage.page.text(outline);
    assert!(before.contains('L'), "{before}");
    stage.wait_for("the chart moves", &format!("{outline} !== '{before}'"));
    let gain = "parseFloat(document.getElementById('now-gain').textContent.slice(2))";
    stage.wait_for("the gain is shown", &format!("{gain} > 1.1"));

    stage.page.eval(&change("lte", "never"));
    let asked = Instant::now();
    let took = stage.until_silent(1);
    println!("lte carried nothing {took:.0?} after it was set to never");
    stage.wait_for("the page says so", &format!("{} < 100", down("lte")));
    println!("the page showed it {:.0?} after", asked.elapsed());
    stage.wait_for("dsl goes on", &busy(&["dsl"]));
    assert!(!download.has_ended(), "the transfer was too short to tell");
    stage.finish(&mut download);
    let said = "document.querySelector('#link-table .said').textContent";
    assert_eq!(stage.page.text(said), "Done.");
    stage.end();
}

#[test]
fn the_page_is_small_asks_no_other_server_and_breaks_no_rule_of_its_own() {
    let test = "the_page_is_small_asks_no_other_server_and_breaks_no_rule_of_its_own";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let urls: Vec<String> = stage
        .page
        .events("Network.requestWillBeSent")
        .iter()
        .map(|event| event["request"]["url"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        urls.iter().all(|url| url.starts_with(stage.origin())),
        "{urls:?}"
    );
    let sizes = stage.page.events("Network.loadingFinished");
    let bytes: f64 = sizes
        .iter()
        .filter_map(|event| event["encodedDataLength"].as_f64())
        .sum();
    println!("{bytes} bytes in {} answers", sizes.len());
    assert!(sizes.len() > 4 && bytes < 200e3, "{bytes} in {sizes:?}");
    let paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
    println!("first paint after {} ms", stage.page.eval(paint));
    assert_eq!(
        stage.page.text("location.hash"),
        "",
        "the token is not left in the address"
    );
    stage.unharmed();
    stage.end();
}

#[test]
fn a_page_whose_parts_did_not_come_is_loaded_again() {
    let test = "a_page_whose_parts_did_not_come_is_loaded_again";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    for (part, effect) in [
        ("samples.js", LIVE),
        (
            "style.css",
            "getComputedStyle(document.body).maxWidth === '1500px'",
        ),
    ] {
        let failed = |page: &mut Chromium| page.events("Network.loadingFailed").len();
        let before = failed(&mut stage.page);
        stage.page.call(
            "Network.setBlockedURLs",
            json!({ "urls": [format!("*/{part}")] }),
        );
        stage.page.eval("location.reload(); 1");
        until(
            "it does not come",
            || failed(&mut stage.page) > before,
            String::new,
        );
        stage
            .page
            .call("Network.setBlockedURLs", json!({ "urls": [] }));
        stage.wait_for("it has come", effect);
        stage.wait_for("it is live", LIVE);
    }
    stage.end();
}

#[test]
fn names_from_strangers_stay_text() {
    let test = "names_from_strangers_stay_text";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let hostile = json!({
        "role": "client",
        "all_sessions": { "stream_count": 1 },
        "sessions": [{
            "id": MARKUP, "stream_count": 1, "paths": [],
            "streams": [{
                "id": 4, "program": MARKUP, "destination": format!("{MARKUP}\u{202e}:443"),
                "rate_bps": 0, "bytes_sent": 0, "bytes_received": 0, "age_ms": 0,
            }],
            "packet_flows": [{
                "protocol": "udp", "source": "10.83.0.2:5000", "destination": "192.0.2.1:53",
                "name": MARKUP, "links": [{ "link": MARKUP }],
                "rate_bps": 0, "bytes_sent": 0, "bytes_received": 0, "age_ms": 0,
            }],
        }],
    });
    // In one go, before the daemon's next status is shown instead.
    let text = stage.page.text(&format!(
        "import('/flows.js').then(({{ showFlows }}) => {{
            showFlows({hostile});
            return document.getElementById('flow-table').innerHTML;
        }})"
    ));
    assert!(text.contains("&lt;img src=x"), "{text}");
    assert!(text.contains("udp packets"), "{text}");
    assert!(!text.contains('\u{202e}'), "{text}");
    assert_eq!(
        stage
            .page
            .eval("document.querySelectorAll('#evil, img[src=x]').length"),
        0
    );
    assert_eq!(stage.page.eval("window.harmed === undefined"), true);
    stage.unharmed();
    stage.end();
}

#[test]
fn a_wrong_token_and_a_lost_daemon_are_said_in_words() {
    let test = "a_wrong_token_and_a_lost_daemon_are_said_in_words";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let url = stage.url.clone();
    stage
        .page
        .eval("sessionStorage.setItem('hawser-pass', 'wrong'); location.reload(); 1");
    stage.wait_for("it asks for the token", ASKS);
    assert_eq!(
        stage.page.eval("document.getElementById('main').hidden"),
        true
    );
    stage.audit("without a token");
    let give = format!(
        "document.getElementById('token').value = {url:?};
         document.getElementById('token-form').requestSubmit(); 1"
    );
    stage.page.eval(&give);
    stage.wait_for("it is live", LIVE);
    stage.stop_up();
    stage.wait_for(
        "it says that the daemon is gone",
        "document.getElementById('notice').textContent.startsWith('Not connected')",
    );
    stage.audit("without a daemon");
    stage.start_up();
    stage.wait_for("it is live again by itself", LIVE);
    assert_eq!(
        stage
            .page
            .text("document.getElementById('notice').textContent"),
        ""
    );
    stage.end();
}

#[test]
fn who_takes_the_port_of_a_daemon_that_has_ended_is_sent_nothing_secret() {
    let test = "who_takes_the_port_of_a_daemon_that_has_ended_is_sent_nothing_secret";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let token = stage.url.split_once("#token=").unwrap().1.to_owned();
    let passes = |stage: &mut Stage| {
        let sent = stage.page.events("Network.requestWillBeSent");
        let sent = sent.iter().map(|event| event["request"].to_string());
        let with_pass: Vec<_> = sent.filter(|it| it.contains("Bearer ")).collect();
        assert!(with_pass.iter().all(|request| !request.contains(&token)));
        with_pass.len()
    };
    stage.stop_up();
    stage.wait_for(
        "it says that the daemon is gone",
        "document.getElementById('notice').textContent.startsWith('Not connected')",
    );
    let before = passes(&mut stage);
    assert!(before > 0, "the daemon was asked without a pass");
    let imposter = stage.imposter();
    stage.wait_for("it does not believe the other", ASKS);
    assert_eq!(passes(&mut stage), before);
    // It may not have begun to listen for signals.
    imposter.kill();
    stage.start_up();
    stage.wait_for("it is live again by itself", LIVE);
    // Loaded anew it has the pass only, which is enough for this daemon.
    stage.page.eval("location.reload(); 1");
    stage.wait_for("it is live once more", LIVE);

    let renewed = stage.place.run("client", &["web", "--renew"]);
    stage.wait_for("it asks for the new token", ASKS);
    let (_, new) = renewed.out.trim().split_once('#').unwrap();
    stage.page.eval(&format!("location.hash = '{new}'; 1"));
    stage.wait_for("it is live with the new token", LIVE);
    passes(&mut stage);
    stage.end();
}

#[test]
fn a_gateway_has_nothing_to_choose_from() {
    let Some(mut stage) = Stage::new("a_gateway_has_nothing_to_choose_from") else {
        return;
    };
    let is_shown = "document.getElementById('policy').checkVisibility()";
    stage.wait_for("a client has", is_shown);
    let url = stage.become_gateway();
    stage.page.open(&url);
    stage.wait_for(
        "the page is a gateway's",
        "document.getElementById('daemon').textContent.includes(' gateway,')",
    );
    assert_eq!(stage.page.eval(is_shown), false);
    stage.audit("of a gateway");
    stage.end();
}

/// The rate in kbit/s that the page shows for a link, down.
fn down(link: &str) -> String {
    format!(
        "(() => {{
            const rows = [...document.querySelectorAll('#link-table tbody')];
            const row = rows.find((row) => row.querySelector('bdi').textContent === '{link}');
            const [number, unit] = row.querySelector('[data-label=Down]').textContent.split(' ');
            return number * {{ 'bit/s': 1e-3, 'kbit/s': 1, 'Mbit/s': 1e3, 'Gbit/s': 1e6 }}[unit];
        }})()"
    )
}

/// Whether each of these carries more than 2 Mbit/s.
fn busy(links: &[&str]) -> String {
    let all: Vec<_> = links
        .iter()
        .map(|link| format!("{} > 2000", down(link)))
        .collect();
    all.join(" && ")
}

/// Sets the use of a link, both ways, as a click of a user does.
fn change(link: &str, usage: &str) -> String {
    format!(
        "(() => {{
            const rows = [...document.querySelectorAll('#link-table tbody')];
            const row = rows.find((row) => row.querySelector('bdi').textContent === '{link}');
            row.querySelector('button').click();
            const form = row.querySelector('form');
            form.elements.down.value = form.elements.up.value = '{usage}';
            form.requestSubmit();
            return 1;
        }})()"
    )
}

/// Whether the page gets what the daemon does.
const LIVE: &str = "document.getElementById('connection').textContent === 'live'";
/// Whether it wants a token.
const ASKS: &str = "!document.getElementById('refused').hidden";
const MARKUP: &str = "<img src=x onerror=window.harmed=1>";
