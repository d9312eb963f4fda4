//! A page in a browser.

use std::process::Command;

use super::chromium::ALONE;
use super::clients::{Rope, is_without, run};
use super::nginx::Nginx;
use super::program::Place;

#[test]
fn a_browser_loads_a_page_with_its_images_and_scripts() {
    let test = "a_browser_loads_a_page_with_its_images_and_scripts";
    if is_without(&["nginx", "chromium"], test) {
        return;
    }
    let place = Place::new();
    let (nginx, rope) = (Nginx::start(&place), Rope::start(&place));
    let names = publish(&nginx);
    let mut chromium = Command::new("chromium");
    chromium
        .args(ALONE)
        .arg(BY_PROXY)
        .arg(format!("--user-data-dir={}", place.path("user").display()))
        .arg(format!("--proxy-server=socks5://{}", rope.proxy))
        .args(["--dump-dom", &nginx.url("index.html")])
        .env("HOME", place.folder("home"));
    let page = run(&place, &mut chromium).text();
    let written = format!("widths 10 20 30 40 50 60, {DATA} letters");
    assert!(page.contains(&written), "{page}\n{}", rope.up.log());
    for name in names {
        nginx.logged(&[&format!("GET /{name} "), " 200 ", "Chrome"]);
    }
    // Otherwise it would not have come through the rope.
    assert!(rope.connected(&place) > 0);
    rope.end();
}

/// Puts the page there, and returns the names of its parts.
fn publish(nginx: &Nginx) -> Vec<String> {
    let mut names: Vec<String> = (1..=6).map(|image| format!("{image}.svg")).collect();
    let images: String = names.iter().map(|n| format!("<img src={n}>")).collect();
    for (name, width) in names.iter().zip((10..).step_by(10)) {
        let (start, end) = ("<svg xmlns='http://www.w3.org/2000/svg'", "</svg>");
        let text = format!("{start} width='{width}' height='5'>{end}");
        nginx.put(name, text.as_bytes());
    }
    let data = format!("const data = '{}';", "a".repeat(DATA));
    nginx.put("data.js", data.as_bytes());
    nginx.put("show.js", SHOW.as_bytes());
    let scripts = "<script src=data.js></script><script src=show.js></script>";
    let page = format!("<!doctype html><p id=out>nothing</p>{images}{scripts}");
    nginx.put("index.html", page.as_bytes());
    names.extend(["index.html", "data.js", "show.js"].map(str::to_owned));
    names
}

/// Shows which parts have arrived, once all have.
const SHOW: &str = "
addEventListener('load', () => {
    const widths = [...document.images].map(image => image.naturalWidth).join(' ');
    const out = document.getElementById('out');
    out.textContent = `widths ${widths}, ${data.length} letters`;
});
";

const DATA: usize = 1_000_000;

/// Otherwise it would go around the proxy for addresses of this machine.
const BY_PROXY: &str = "--proxy-bypass-list=<-loopback>";
