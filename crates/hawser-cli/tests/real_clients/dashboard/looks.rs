//! Accessibility and appearance of the page, for all kinds of displays, colour vision and input
//! devices.

use std::path::Path;

use serde_json::Value;

use super::stage::Stage;
use super::{LIVE, busy, change};
use crate::chromium::Chromium;

#[test]
fn the_page_can_be_read_and_used_in_every_size_and_colour() {
    let test = "the_page_can_be_read_and_used_in_every_size_and_colour";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let mut download = stage.download("curl");
    stage.wait_for("something moves", &busy(&["dsl"]));
    open_everything(&mut stage);
    for size in [DESK, PHONE] {
        for scheme in ["light", "dark"] {
            stage.page.show_as(size, scheme);
            stage.wait_for("it is drawn", LIVE);
            stage.audit(&format!("{size:?} {scheme}"));
        }
    }
    stage.finish(&mut download);
    stage.unharmed();
    stage.page.eval(SPOIL);
    let found = stage.page.eval(include_str!("audit.js")).to_string();
    for fault in FAULTS {
        assert!(found.contains(fault), "{fault} is not among {found}");
    }
    stage.end();
}

/// Opens every form, table and reason, so that they are checked too.
fn open_everything(stage: &mut Stage) {
    let buttons = "document.querySelectorAll('[aria-expanded=false]:not([hidden])')";
    stage.wait_for("there are links", &format!("{buttons}.length >= 3"));
    let open = format!("{buttons}.forEach((button) => button.click())");
    let details = "document.querySelectorAll('details').forEach((it) => (it.open = true))";
    stage.page.eval(&format!("{open}; {details}; 1"));
    stage.wait_for(
        "a reason is told",
        "document.querySelector('#flow-table .below p') !== null",
    );
}

#[test]
fn a_keyboard_is_enough() {
    let Some(mut stage) = Stage::new("a_keyboard_is_enough") else {
        return;
    };
    let buttons = "document.querySelectorAll('#link-table button:not([hidden])')";
    stage.wait_for("there are links", &format!("{buttons}.length === 2"));
    tab_through(&mut stage.page);

    let row = "[...document.querySelectorAll('#link-table tbody')]
        .find((row) => row.querySelector('bdi').textContent === 'lte')";
    let is_at = |what: &str| format!("document.activeElement === ({row}).querySelector('{what}')");
    tab_to(&mut stage.page, &is_at("button"));
    stage.page.press("Enter");
    for direction in ["down", "up"] {
        tab_to(&mut stage.page, &is_at(&format!("[name={direction}]")));
        stage.page.press("End");
    }
    tab_to(&mut stage.page, &is_at("form button"));
    stage.page.press("Enter");
    stage.wait_for(
        "it is done",
        &format!("({row}).querySelector('.said').textContent === 'Done.'"),
    );
    let status = stage.status();
    let links = status["links"].as_array().unwrap();
    let lte = links.iter().find(|link| link["name"] == "lte").unwrap();
    assert_eq!(
        (&lte["allowed"]["up"], &lte["allowed"]["down"]),
        (&"never".into(), &"never".into())
    );

    // A moment of a chart, by the slider below it, once it shows one before the latest.
    let line = "document.querySelector('.chart svg :not(pattern) > path[fill=none]')";
    stage.wait_for(
        "a line has four points",
        &format!("{line}?.getAttribute('d').split(/[A-Za-z]/).length > 4"),
    );
    tab_to(
        &mut stage.page,
        "document.activeElement.className === 'chart-slider'",
    );
    stage.page.press("ArrowLeft");
    let said = stage
        .page
        .text("document.activeElement.getAttribute('aria-valuetext')");
    assert!(said.starts_with("1 s ago: dsl "), "{said}");
    stage.end();
}

/// Checks that Tab from the beginning of the page to its end reaches every control, in the order of
/// the page, each time with an outline.
fn tab_through(page: &mut Chromium) {
    page.eval("document.activeElement.blur(); 1");
    let count = page.eval(&format!("{CONTROLS}.length")).as_u64().unwrap();
    assert!(count > 20, "{count}");
    for place in 0..count {
        page.press("Tab");
        let at = page.eval(&format!("{CONTROLS}.indexOf(document.activeElement)"));
        let node = page.text("document.activeElement.outerHTML.slice(0, 200)");
        assert_eq!(at, place, "{node}");
        let outline = page.text("getComputedStyle(document.activeElement).outlineStyle");
        assert_ne!(outline, "none", "{node}");
    }
}

/// Tab until an expression is true.
pub(super) fn tab_to(page: &mut Chromium, is_there: &str) {
    for _ in 0..200 {
        if page.eval(is_there) == true {
            return;
        }
        page.press("Tab");
    }
    panic!("the focus never comes to {is_there}");
}

/// Checks that everything important in the browser's accessibility tree has a name.
pub(super) fn names_in_the_tree(page: &mut Chromium, what: &str) {
    let tree = page.call("Accessibility.getFullAXTree", serde_json::json!({}));
    let nodes = tree["nodes"].as_array().unwrap();
    let role = |node: &Value| {
        node["role"]["value"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let told: Vec<_> = nodes
        .iter()
        .filter(|node| node["ignored"] == false)
        .collect();
    let nameless: Vec<_> = told
        .iter()
        .filter(|node| NAMED.contains(&role(node).as_str()))
        .filter(|node| {
            node["name"]["value"]
                .as_str()
                .unwrap_or_default()
                .trim()
                .is_empty()
        })
        .collect();
    assert!(nameless.is_empty(), "{what}: {nameless:?}");
    assert!(told.iter().any(|node| role(node) == "heading"), "{what}");
}

/// Writes pictures of a real transfer into `docs/images`.
#[test]
#[ignore = "writes into the repository: cargo xtask screenshots"]
fn screenshots() {
    let Some(mut stage) = Stage::new("screenshots") else {
        return;
    };
    stage.page.show_as(PICTURE, "light");
    let _transfers = [stage.downloads(9), stage.upload("450K")];
    let outline = "document.querySelector('#chart-down svg[role=img] g path').getAttribute('d')";
    let samples = |count: u32| format!("{outline}.split('L').length > {}", 2 * count);
    stage.wait_for("half a minute is drawn", &samples(30));
    stage.page.eval(&change("lte", "backup"));
    stage.wait_for("more is drawn", &samples(42));
    stage.page.eval(&change("lte", "normal"));
    let _more = stage.downloads(3);
    stage.wait_for("most of a minute is drawn", &samples(70));
    let close = "document.querySelectorAll('#link-table [aria-expanded=true]')";
    stage
        .page
        .eval(&format!("{close}.forEach((button) => button.click()); 1"));
    for (name, size, scheme) in [
        ("light", PICTURE, "light"),
        ("dark", PICTURE, "dark"),
        ("phone", TALL, "light"),
    ] {
        stage.page.show_as(size, scheme);
        stage
            .page
            .eval("new Promise((done) => setTimeout(done, 1500)).then(() => 1)");
        let picture = stage.page.picture();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("dashboard-{name}.png"));
        std::fs::write(&file, &picture).unwrap();
        println!("{}: {} bytes", file.display(), picture.len());
        assert!(
            picture.len() < 150_000,
            "a picture of {} bytes",
            picture.len()
        );
    }
}

pub(super) const DESK: (u32, u32) = (1280, 900);
const PHONE: (u32, u32) = (360, 740);
const PICTURE: (u32, u32) = (1280, 860);
const TALL: (u32, u32) = (390, 844);

/// Everything that takes the focus, in the order of the page. Of radio buttons the chosen one does.
const CONTROLS: &str = "[...document.querySelectorAll(
    'a[href], button, select, input, summary, [tabindex=\"0\"]'
)].filter((node) => node.checkVisibility() && (node.type !== 'radio' || node.checked))";
/// Faults put into the page, which the audit has to find.
const SPOIL: &str = "document.querySelector('main').insertAdjacentHTML('beforeend', `
    <p id=main class=pale>pale</p><button></button><h5>deep</h5><img src=/icon.svg>
    <table><tr><td>1</table><p tabindex=3>first</p><a href=/ aria-controls=missing></a>`);
    const pale = document.querySelector('.pale');
    pale.style.color = '#999';
    pale.style.background = '#aaa';
    pale.style.width = '5000px';
    1";
const FAULTS: [&str; 8] = [
    "the id main stands twice",
    "no name: <button",
    "a heading after one of level",
    "no alternative text",
    "a table without heads",
    "an order of its own",
    "contrast 1.",
    "pixels wide in a window of",
];
const NAMED: [&str; 12] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "checkbox",
    "radio",
    "slider",
    "spinbutton",
    "image",
    "DisclosureTriangle",
    "region",
];
