//! The page's forms: their entries take effect, and the page and the command line show the result.

use serde_json::{Value, json};

use super::looks::tab_to;
use super::stage::Stage;

#[test]
fn the_policy_form_says_and_sets_what_is_in_force() {
    let Some(mut stage) = Stage::new("the_policy_form_says_and_sets_what_is_in_force") else {
        return;
    };
    let form = "#policy-form";
    same_policy(&mut stage);
    assert_eq!(submit(&mut stage, form, &json!({})), "Nothing was changed.");
    let chosen = json!({
        "sessions": "ecf", "connections": "round-robin", "gateway": "auto", "profile": "saver",
        "transport": "auto",
    });
    done(&mut stage, form, &chosen);
    for (of, name) in chosen.as_object().unwrap() {
        assert_eq!(&policy(&stage)[of], name);
    }
    same_policy(&mut stage);
    let event =
        "document.getElementById('events').textContent.includes('Scheduler of sessions: ecf')";
    stage.wait_for("the page tells of it", event);
    assert!(!stage.config().contains("ecf"));

    // Values that another program sets are shown, except those that the user is about to change.
    let choose = "const select = document.querySelector('#policy-form [name=sessions]');
        select.value = 'blest';";
    stage.page.eval(&format!("{{ {choose} 1 }}"));
    let by_command = [
        "policy",
        "set",
        "--scheduler",
        "backlog",
        "--profile",
        "speed",
    ];
    assert_eq!(stage.place.run("client", &by_command).code, 0);
    stage.wait_for(
        "the profile is shown",
        "document.querySelector('#policy-form [name=profile]').value === 'speed'",
    );
    let select = "document.querySelector('#policy-form [name=sessions]').value";
    assert_eq!(stage.page.text(select), "blest");
    saved(&mut stage, form, &json!({ "save": true }));
    same_policy(&mut stage);
    let config = stage.config();
    let expected = [
        "[session]\nscheduler = \"blest\"",
        "scheduler = \"round-robin\"",
        "gateway = \"auto\"",
        "profile = \"speed\"",
    ];
    for line in expected {
        assert!(config.contains(line), "{line} is not in {config}");
    }
    let before = policy(&stage);
    stage.stop_up();
    stage.start_up();
    assert_eq!(policy(&stage), before);
    stage.end();
}

#[test]
fn rules_are_added_ahead_of_others_and_removed_where_they_stand() {
    let test = "rules_are_added_ahead_of_others_and_removed_where_they_stand";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let form = "#rule-form";
    same_rules(&mut stage);
    let wrong = json!({ "key": "port", "value": "http", "effect": "only over the link" });
    let refused = submit(&mut stage, form, &wrong);
    assert!(refused.starts_with("Not done: "), "{refused}");
    assert_eq!(policy(&stage)["rules"], json!([]));

    let fields = json!({
        "key": "program", "value": "curl, wget", "effect": "only over the link", "target": "dsl",
    });
    done(&mut stage, form, &fields);
    let fields = json!({
        "key": "port", "value": "22", "effect": "as of the class", "target": "interactive",
        "name": "far \"shells\"",
    });
    done(&mut stage, form, &fields);
    let rules = policy(&stage)["rules"].clone();
    let texts = [
        "name = 'far \"shells\"'\nport = \"22\"\nclass = \"interactive\"\n",
        "program = [\"curl\", \"wget\"]\nonly = \"dsl\"\n",
    ];
    for (place, text) in texts.iter().enumerate() {
        assert_eq!(rules[place]["rule"], *text);
    }
    assert_eq!(numbers(&stage), [("session", 1), ("session", 2)]);
    same_rules(&mut stage);
    assert!(!stage.config().contains("rule"));

    let fields = json!({
        "key": "domain", "value": "example.org", "effect": "not over links", "target": "metered",
        "name": "", "save": true,
    });
    saved(&mut stage, form, &fields);
    let written = "[[rule]]\ndomain = \"example.org\"\navoid = \"metered\"";
    assert!(stage.config().contains(written), "{}", stage.config());
    same_rules(&mut stage);
    assert_eq!(
        numbers(&stage),
        [("session", 1), ("session", 2), ("user", 3)]
    );

    press_remove(&mut stage, 1);
    stage.wait_for("one rule is gone", &count_is(2));
    same_rules(&mut stage);
    assert_eq!(policy(&stage)["rules"][0]["rule"], texts[1]);
    // What is written down takes a second press.
    press_remove(&mut stage, 2);
    let button = "document.querySelectorAll('#rule-table button')[1].textContent";
    assert_eq!(stage.page.text(button), "Remove it from the configuration");
    assert_eq!(numbers(&stage), [("session", 1), ("user", 2)]);
    press_remove(&mut stage, 2);
    stage.wait_for("the other rule is gone", &count_is(1));
    same_rules(&mut stage);
    assert!(!stage.config().contains("example.org"));
    stage.unharmed();
    stage.end();
}

#[test]
fn policy_and_rules_need_no_more_than_a_keyboard() {
    let test = "policy_and_rules_need_no_more_than_a_keyboard";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let policy_form = "document.getElementById('policy-form')";
    same_policy(&mut stage);
    let first = policy(&stage)["sessions_known"][0].clone();
    assert_ne!(policy(&stage)["sessions"], first);
    tab_to(
        &mut stage.page,
        &format!("document.activeElement === {policy_form}.elements.sessions"),
    );
    stage.page.press("Home");
    tab_to(&mut stage.page, &is_button("#policy-form"));
    stage.page.press("Enter");
    stage.wait_for(
        "it is done",
        &format!("{policy_form}.querySelector('.said').textContent === 'Done.'"),
    );
    assert_eq!(policy(&stage)["sessions"], first);

    tab_to(
        &mut stage.page,
        "document.activeElement === document.getElementById('rule-form').elements.value",
    );
    for letter in ["c", "u", "r", "l"] {
        stage.page.press(letter);
    }
    stage.page.press("Enter");
    stage.wait_for("the rule is there", &count_is(1));
    same_rules(&mut stage);
    assert_eq!(policy(&stage)["rules"][0]["when"], "program curl");
    tab_to(&mut stage.page, &is_button("#rule-table"));
    stage.page.press("Enter");
    stage.wait_for("the rule is gone", &count_is(0));
    assert_eq!(policy(&stage)["rules"], json!([]));
    // Who has pressed a button that is gone is not sent back to the beginning of the page.
    stage.wait_for(
        "the focus is kept",
        "document.activeElement.id === 'rules-title'",
    );
    stage.end();
}

#[test]
fn the_form_of_a_link_shows_what_it_costs_and_says_only_what_was_changed() {
    let test = "the_form_of_a_link_shows_what_it_costs_and_says_only_what_was_changed";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let row = "[...document.querySelectorAll('#link-table tbody')]
        .find((row) => row.querySelector('bdi').textContent === 'lte')";
    stage.wait_for("there are links", &format!("{row} !== undefined"));
    let open = format!("({row}).querySelector('button').click(); 1");
    stage.page.eval(&open);
    let begun = json!({ "down": "normal", "weight": "1", "price": "0", "allowance": "none" });
    offers(&mut stage, &begun);
    let by_command = "link lte --weight 5 --price 2.5EUR/GB --allowance 1500MB";
    let words: Vec<_> = by_command.split(' ').collect();
    assert_eq!(stage.place.run("client", &words).code, 0);
    offers(
        &mut stage,
        &json!({ "weight": "5", "price": "2.5EUR/GB", "allowance": "1500MB" }),
    );

    assert_eq!(
        submit(&mut stage, LINK_FORM, &json!({})),
        "Nothing was changed."
    );
    done(
        &mut stage,
        LINK_FORM,
        &json!({ "weight": "7", "down": "backup" }),
    );
    let now = json!({
        "weight": 7, "down": "backup", "up": "normal", "price": "2.5EUR/GB",
        "allowance_bytes": 1_500_000_000,
    });
    assert_allowed(&stage, &now);
    // And back, in the same form.
    offers(&mut stage, &json!({ "down": "backup" }));
    done(&mut stage, LINK_FORM, &json!({ "down": "normal" }));
    assert_allowed(&stage, &json!({ "down": "normal" }));
    let free = json!({ "price": "0", "allowance": "none", "save": true });
    saved(&mut stage, LINK_FORM, &free);
    assert_allowed(
        &stage,
        &json!({ "price": null, "allowance_bytes": null, "weight": 7 }),
    );
    let config = stage.config();
    assert!(
        config.contains("name = \"lte\"") && !config.contains("weight"),
        "{config}"
    );
    stage.unharmed();
    stage.end();
}

/// Waits until the fields of the link's form are filled in so.
fn offers(stage: &mut Stage, fields: &Value) {
    let filled = format!(
        "Object.entries({fields}).every(([name, value]) => {{
            const field = document.querySelector('{LINK_FORM}').elements[name];
            return field.value === value && field.dataset.shown === value;
        }})"
    );
    stage.wait_for(&format!("the form has {fields}"), &filled);
}

/// Checks the daemon's settings of `lte`.
fn assert_allowed(stage: &Stage, expected: &Value) {
    let status = stage.status();
    let mut links = status["links"].as_array().unwrap().iter();
    let allowed = &links.find(|link| link["name"] == "lte").unwrap()["allowed"];
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&allowed[key], value, "{key} in {allowed}");
    }
}

/// Fills in a form, presses its button, and expects success.
fn done(stage: &mut Stage, form: &str, fields: &Value) {
    assert_eq!(submit(stage, form, fields), "Done.");
}

/// The same, and it is saved to the configuration.
fn saved(stage: &mut Stage, form: &str, fields: &Value) {
    let said = submit(stage, form, fields);
    let is_saved = said.starts_with("Done, and saved to /") && said.ends_with("/hawser.toml.");
    assert!(is_saved, "{said}");
}

/// Fills in a form, and presses its button; returns the outcome.
fn submit(stage: &mut Stage, form: &str, fields: &Value) -> String {
    stage.page.eval(&format!(
        "(() => {{
            const form = document.querySelector('{form}');
            for (const [name, value] of Object.entries({fields})) {{
                const field = form.elements[name];
                field[field.type === 'checkbox' ? 'checked' : 'value'] = value;
                for (const kind of ['input', 'change'])
                    field.dispatchEvent(new Event(kind, {{ bubbles: true }}));
            }}
            form.querySelector('.said').textContent = '…';
            form.requestSubmit();
            return 1;
        }})()"
    ));
    let said = format!("document.querySelector('{form} .said').textContent");
    stage.wait_for("something is said", &format!("{said} !== '…'"));
    stage.page.text(&said)
}

/// Returns the output of `hawser policy --json`.
fn policy(stage: &Stage) -> Value {
    let ended = stage.place.run("client", &["policy", "--json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

/// Waits until the form agrees with the command line.
fn same_policy(stage: &mut Stage) {
    let policy = policy(stage);
    for of in ["sessions", "connections", "transport", "gateway", "profile"] {
        let select = format!("document.querySelector('#policy-form [name={of}]')");
        let same = format!(
            "{select}.value === {} && {select}.checkVisibility()",
            policy[of]
        );
        stage.wait_for(&format!("{of} is shown as it is"), &same);
    }
}

/// Waits until the table agrees with the command line's rules, in their order.
fn same_rules(stage: &mut Stage) {
    let policy = policy(stage);
    let rules = policy["rules"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let expected: Vec<_> = rules
        .iter()
        .map(|rule| {
            let name = rule["name"].as_str().map(|name| format!("{name}: "));
            let when = name.unwrap_or_default() + &text(&rule["when"]);
            json!([
                rule["number"].to_string(),
                when,
                text(&rule["then"]),
                text(&rule["source"])
            ])
        })
        .collect();
    let shown = "JSON.stringify([...document.querySelectorAll('#rule-table tbody tr')]
        .map((row) => [...row.querySelectorAll('bdi')].map((cell) => cell.textContent)))";
    let expected = json!(expected);
    stage.wait_for(
        "the rules are shown",
        &format!("{shown} === JSON.stringify({expected})"),
    );
}

/// Returns the source and the number of each rule.
fn numbers(stage: &Stage) -> Vec<(&'static str, u64)> {
    let policy = policy(stage);
    let source = |rule: &Value| match rule["source"].as_str() {
        Some("user") => "user",
        Some("session") => "session",
        _ => "profile",
    };
    let rules = policy["rules"].as_array().unwrap().iter();
    rules
        .map(|rule| (source(rule), rule["number"].as_u64().unwrap()))
        .collect()
}

/// Presses the button of the rule with this number.
fn press_remove(stage: &mut Stage, number: u64) {
    stage.page.eval(&format!(
        "document.querySelectorAll('#rule-table button')[{number} - 1].click(); 1"
    ));
}

fn count_is(rules: usize) -> String {
    format!("document.querySelectorAll('#rule-table tbody').length === {rules}")
}

/// Whether the focus is at the button of a part of the page.
fn is_button(part: &str) -> String {
    format!("document.activeElement === document.querySelector('{part} button')")
}

const LINK_FORM: &str = "#link-table form";
