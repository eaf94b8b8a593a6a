//! `docs/scenario-keys.md`, written from the doc comments of what a scenario is read into.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use headway_control::Kind;
use syn::{
    Attribute, Expr, Field, Fields, GenericArgument, Item, Lit, Meta, PathArguments, Type, Visibility,
};

use crate::Scenario;
use crate::world::{self, World};

/// The files with the types that scenarios are read into.
const SOURCES: [&str; 11] = [
    "host/src/gap/mod.rs",
    "host/src/nic.rs",
    "scenario/src/change_spec.rs",
    "scenario/src/middlebox.rs",
    "scenario/src/model.rs",
    "scenario/src/select.rs",
    "select/src/settings.rs",
    "traffic/src/arrivals.rs",
    "traffic/src/crowd.rs",
    "traffic/src/lib.rs",
    "units/src/rate_steps.rs",
];
/// The folders with more of them.
const FOLDERS: [&str; 2] = ["queue/src", "traffic/src/channel"];
const COMMAND: &str = "HEADWAY_WRITE=1 cargo test -p headway-scenario reference";
/// The specifications that doc comments cite; users of a scenario need none of them.
const CITED: [&str; 5] = ["rapid", "ls-aimd", "bass", "wan", "xcp-rcp"];

/// A key, or one of several kinds of a table.
#[derive(PartialEq)]
struct Row {
    name: String,
    value: String,
    about: String,
}

/// The public types by name.
struct Types(BTreeMap<String, Item>);

impl Types {
    fn read() -> Types {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let folders =
            FOLDERS.iter().flat_map(|folder| std::fs::read_dir(crates.join(folder)).expect("a folder"));
        let paths = folders.map(|entry| entry.expect("an entry").path());
        let sources = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
        let files = SOURCES.iter().map(|file| crates.join(file)).chain(sources);
        let items = files.flat_map(|path| {
            let text = std::fs::read_to_string(&path).expect("a source file");
            syn::parse_file(&text).expect("a Rust file").items
        });
        let public = items.filter_map(|item| match &item {
            Item::Struct(one) if matches!(one.vis, Visibility::Public(_)) => {
                Some((one.ident.to_string(), item))
            }
            Item::Enum(one) if matches!(one.vis, Visibility::Public(_)) => {
                Some((one.ident.to_string(), item))
            }
            _ => None,
        });
        Types(public.collect())
    }

    /// Returns the rows of a table whose keys are read into this type.
    fn rows(&self, name: &str) -> Vec<Row> {
        match &self.0[name] {
            Item::Struct(one) => self.keys(&one.fields, name),
            Item::Enum(one) => {
                let mut rows = Vec::new();
                let mut variants = one.variants.iter().peekable();
                while let Some(variant) = variants.next() {
                    let names = serde(&variant.attrs);
                    let renamed = names.iter().find_map(|item| item.strip_prefix("rename = "));
                    let kind = renamed
                        .map_or_else(|| kebab(&variant.ident.to_string()), |name| name.replace('"', ""));
                    rows.push(Row {
                        name: format!("**`{kind}`**"),
                        value: String::new(),
                        about: doc(&variant.attrs),
                    });
                    let keys = self.keys(&variant.fields, name);
                    // Kinds that follow each other and have the same keys list them once.
                    if variants.peek().is_none_or(|next| self.keys(&next.fields, name) != keys) {
                        rows.extend(keys);
                    }
                }
                rows
            }
            _ => Vec::new(),
        }
    }

    fn keys(&self, fields: &Fields, of: &str) -> Vec<Row> {
        match fields {
            Fields::Unnamed(fields) => self.rows(&last(&fields.unnamed[0].ty).0),
            fields => fields.iter().filter_map(|field| self.key(field, of)).collect(),
        }
    }

    /// Returns the row of a key; none if files do not have it.
    fn key(&self, field: &Field, of: &str) -> Option<Row> {
        let name = kebab(&field.ident.as_ref().expect("a key has a name").to_string());
        let attributes = serde(&field.attrs);
        let is_limit = of.ends_with("Config") && ["limit", "packets"].contains(&&*name);
        let has_section = SECTIONS.iter().any(|section| section.0 == format!("`[[{name}]]`"));
        if is_limit || has_section || attributes.iter().any(|item| item == "skip" || item == "flatten") {
            return None;
        }
        let is_option = matches!(&field.ty, Type::Path(_)) && last(&field.ty).0 == "Option";
        let is_list =
            matches!(&field.ty, Type::Path(_)) && ["Vec", "BTreeMap"].contains(&&*last(&field.ty).0);
        let optional = is_option || attributes.iter().any(|item| item.starts_with("default"));
        let is_share = attributes.iter().any(|item| item.contains("share"));
        let kind = if is_share { "share".to_owned() } else { self.value(&field.ty) };
        let (about, default) = split(&doc(&field.attrs));
        let default = match (default, optional) {
            (Some(default), _) => default,
            (None, false) => "required".to_owned(),
            (None, true) if is_option || is_list => "none".to_owned(),
            (None, true) => panic!("the doc comment of `{name}` of {of} does not say its default"),
        };
        Some(Row { name: format!("`{name}`"), value: format!("{kind} ({default})"), about })
    }

    /// Returns how files write a value of this type.
    fn value(&self, of: &Type) -> String {
        let (name, inner) = match of {
            Type::Array(array) => return format!("two: {}", self.value(&array.elem)),
            of => last(of),
        };
        let text = match name.as_str() {
            "Option" | "Box" => return self.value(inner.expect("an inner type")),
            "Vec" => return format!("list: {}", self.value(inner.expect("an inner type"))),
            "BTreeMap" => "[tables](#hostnode)",
            "Wire" => "table",
            "String" => "text",
            "bool" => "boolean",
            "u8" | "u16" | "u32" | "u64" => "count",
            "f64" => "number",
            "Rate" => "rate",
            "Duration" => "time",
            "Bytes" => "size",
            "BufferSize" => "size, packets or time",
            "Level" => "size or packets",
            "RateSteps" => "times and rates",
            "DelayTrace" => "times and delays, or file",
            "CapacityTrace" | "ModelFile" | "Capture" => "file",
            "KernelQueue" => "`tc` syntax",
            "FlowController" => "[controller](#controllers)",
            "PolicySource" => "[policy](edge.md#policy) or file",
            "Published" => "boolean or [parts](#published)",
            name => {
                let table = match name {
                    "Jitter" => "Delays",
                    "Outages" => "Recurring",
                    other => other,
                };
                if let Some(Section(heading, ..)) = SECTIONS.iter().find(|section| section.1 == table) {
                    return format!("[table](#{})", anchor(heading));
                }
                let Some(Item::Enum(one)) = self.0.get(name) else { panic!("no word for a {name}") };
                let names =
                    one.variants.iter().map(|variant| format!("`{}`", kebab(&variant.ident.to_string())));
                return names.collect::<Vec<_>>().join(", ");
            }
        };
        text.to_owned()
    }
}

/// A part of the page: a heading, the type that its table is read into, and what is said above the table.
struct Section(&'static str, &'static str, &'static str);

const SECTIONS: &[Section] = &[
    Section("The file", "Scenario", ""),
    Section(
        "`[[link]]`",
        "LinkSpec",
        "A packet waits in the queue, leaves at the rate, and then meets the wire.",
    ),
    Section("`redrawn`", "Redrawn", ""),
    Section(
        "`outages`",
        "Recurring",
        "A list of starts and lengths, `[[\"10 s\", \"200 ms\"]]`, or these keys:",
    ),
    Section("`loss-bursts`", "LossBursts", ""),
    Section(
        "`jitter`",
        "Delays",
        "A time, up to which delays are uniform, or a `kind` with these keys. Each also has `correlation`, that of the delays of\n\
         consecutive packets, from 0 (default) to less than 1.",
    ),
    Section("`police`", "Policer", ""),
    Section(
        "`wifi`",
        "WifiSpec",
        "A channel of 802.11a or g (DCF, without RTS and aggregation) on which all hear all.",
    ),
    Section(
        "`queue`",
        "QueueSpec",
        "`kind` with its keys; each also has `limit` (a size) or `packets`, instead of `buffer`.",
    ),
    Section("`[[flow]]`", "FlowSpec", ""),
    Section("`arrivals`", "ArrivalSpec", ""),
    Section("`size-distribution`", "SizeDistribution", "`kind` with its keys."),
    Section("`[[traffic]]`", "TrafficSpec", ""),
    Section("`model`", "Traffic", ""),
    Section("`[[measure]]`", "MeasureSpec", ""),
    Section("`[[select]]`", "SelectSpec", ""),
    Section("`path`", "SelectPath", ""),
    Section("`[[change]]`", "ChangeSpec", ""),
    Section("`[[program]]`", "ProgramSpec", ""),
    Section("`[[middlebox]]`", "MiddleboxSpec", ""),
    Section("`[[middlebox.class]]`", "MiddleboxClass", ""),
    Section("`[host.NODE]`", "HostSpec", ""),
    Section("`coalescing`", "Coalescing", "The interval of a fixed one, or a `kind` with its keys."),
];

/// Enumerations whose values need a line each, with the keys that take them.
const VALUES: [(&str, &str); 8] = [
    ("`kind` of `arrivals`", "CrowdKind"),
    ("`ecn` of a flow", "EcnMode"),
    ("`gaps`", "Mechanism"),
    ("`stamp` of a flow", "AckStamp"),
    ("`stamp` of a measurement", "Stamp"),
    ("`rivals`", "SelectRival"),
    ("`detector`", "Detector"),
    ("`published`", "PublishedPart"),
];

fn serde(attributes: &[Attribute]) -> Vec<String> {
    let lists = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    let lists = lists.filter_map(|attribute| attribute.meta.require_list().ok());
    let items =
        |list: &syn::MetaList| list.tokens.to_string().split(", ").map(str::to_owned).collect::<Vec<_>>();
    lists.flat_map(items).collect()
}

/// Returns the first paragraph of a doc comment, without links and without citations of the specifications.
fn doc(attributes: &[Attribute]) -> String {
    let mut words = String::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(meta) = &attribute.meta else { continue };
        let Expr::Lit(literal) = &meta.value else { continue };
        let Lit::Str(line) = &literal.lit else { continue };
        if line.value().trim().is_empty() {
            break;
        }
        let _ = write!(words, "{} ", line.value().trim());
    }
    for cited in CITED {
        while let Some(start) = words.find(&format!(" ({cited} ")) {
            let end = words[start..].find(')').expect("the end of a citation");
            words.replace_range(start..=start + end, "");
        }
    }
    while let Some(start) = words.find("[`") {
        let end = start + words[start..].find(']').expect("the end of a link");
        let target =
            if words[end + 1..].starts_with('(') { words[end..].find(')').unwrap_or_default() } else { 0 };
        words.replace_range(end..=end + target, "");
        words.remove(start);
    }
    words.trim().trim_end_matches('.').to_owned()
}

/// Splits a line into what a key means and its default: `Rate; default none. Zero is ...`.
fn split(line: &str) -> (String, Option<String>) {
    let found = ["; default: ", "; default ", ". Default: "].iter().find_map(|mark| line.split_once(mark));
    let Some((about, rest)) = found else { return (line.to_owned(), None) };
    let (default, rest) = rest.split_once(". ").map_or((rest, ""), |(default, rest)| (default, rest));
    let default = match default.split(" (RFC").next().unwrap_or_default() {
        "no" => "false",
        "yes" => "true",
        other => other,
    };
    let separator = if rest.is_empty() { "" } else { ". " };
    (format!("{about}{separator}{rest}"), Some(default.to_owned()))
}

/// Returns the name of a type, and the type in its angle brackets.
fn last(of: &Type) -> (String, Option<&Type>) {
    let Type::Path(path) = of else { panic!("a named type") };
    let segment = path.path.segments.last().expect("a name");
    let inner = match &segment.arguments {
        PathArguments::AngleBracketed(list) => list.args.iter().rev().find_map(|argument| match argument {
            GenericArgument::Type(inner) => Some(inner),
            _ => None,
        }),
        _ => None,
    };
    (segment.ident.to_string(), inner)
}

fn kebab(name: &str) -> String {
    let mut text = String::new();
    for (index, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            text.push('-');
        }
        text.push(if letter == '_' { '-' } else { letter.to_ascii_lowercase() });
    }
    text
}

/// Returns the anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|letter| letter.is_alphanumeric() || *letter == '-').collect()
}

/// Returns which worlds have a key of a table, or with an empty key the table; nothing if all have it without
/// conditions.
fn worlds(table: &str, key: &str) -> String {
    let with_value = format!("{} =", key.trim_end_matches('`'));
    for (of, keys, has) in world::documented() {
        let is_it = |item: &&str| item.contains(key) || item.contains(&with_value);
        let find = |keys: &'static str| keys.split(", ").find(is_it).unwrap_or_default();
        let item = match keys.strip_prefix(table) {
            Some("") if key.is_empty() => "",
            Some(keys) => find(keys.trim_start_matches(": ")),
            None if of == table => find(keys),
            None => continue,
        };
        if item.is_empty() != key.is_empty() || has == ["yes"; 3] {
            continue;
        }
        let mut having = Vec::new();
        let mut lacking = String::new();
        for (world, text) in [World::Sim, World::Lab, World::Uml].into_iter().zip(has) {
            match (text, text.strip_prefix("no: ")) {
                ("yes", _) => having.push(world.to_string()),
                (_, Some(instead)) => lacking = format!("; {world}: {instead}"),
                (text, None) if text != "no" => {
                    having.push(format!("{world} ({})", text.trim_start_matches("yes, ")));
                }
                _ => {}
            }
        }
        let condition = if item == key || item.is_empty() { String::new() } else { format!("{item}: ") };
        return format!("{condition}{}{lacking}", having.join(", "));
    }
    String::new()
}

fn page() -> String {
    let types = Types::read();
    let mut page = HEAD.to_owned();
    for Section(heading, of, about) in SECTIONS {
        let level = if heading.starts_with("`[") || !heading.starts_with('`') { "##" } else { "###" };
        let _ = write!(page, "\n{level} {heading}\n\n");
        let whole = worlds(heading, "");
        if heading.starts_with("`[") && !whole.is_empty() {
            let _ = write!(page, "Worlds: {whole}.\n\n");
        }
        if *of == "SelectSpec" {
            let _ = write!(
                page,
                "Links of its paths have\n{};\nall other keys are refused there.\n\n",
                world::keys_of_paths()
            );
        }
        if !about.is_empty() {
            let _ = write!(page, "{about}\n\n");
        }
        let rows = types.rows(of);
        let places: Vec<String> = rows.iter().map(|row| worlds(heading, &row.name)).collect();
        let has_places = places.iter().any(|place| !place.is_empty());
        let head = if has_places { " worlds |" } else { "" };
        let line = if has_places { "---|" } else { "" };
        let _ = writeln!(page, "| key | value (default) | meaning |{head}\n|---|---|---|{line}");
        for (row, place) in rows.iter().zip(&places) {
            let place = if has_places { format!(" {place} |") } else { String::new() };
            let _ = writeln!(page, "| {} | {} | {} |{place}", row.name, row.value, row.about);
        }
    }
    page += "\n## Values\n";
    for (key, of) in VALUES {
        let _ = write!(page, "\n### {key}\n\n");
        for row in types.rows(of) {
            let _ = writeln!(page, "- {}: {}", row.name.replace('*', ""), row.about);
        }
    }
    page += CONTROLLERS;
    for entry in Kind::TABLE {
        let on_linux = if entry.on_linux { "yes" } else { "no" };
        let _ = writeln!(page, "| `{}` | {} | {on_linux} |", entry.form(), entry.about);
    }
    page
}

const HEAD: &str = "\
# Keys of scenarios

Written by a test from the data model; [simulate.md](simulate.md) shows how to use it. Rates are written `\"10 Mb/s\"`,
times `\"10 ms\"`, sizes `\"250 kB\"`, shares `0.05` or `\"5 %\"`. Rates and buffers count bytes on the wire, which are
38 more than a packet has of IP; sizes of flows count payload. File names are relative to the scenario. The last column
says which worlds have a key, or under which condition; where it is empty, all have it.
";

const CONTROLLERS: &str = "
## Controllers

| controller | what it does | also on Linux |
|---|---|---|
";

#[test]
fn the_reference_says_what_the_data_model_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenario-keys.md");
    let page = page();
    if std::env::var_os("HEADWAY_WRITE").is_some() {
        std::fs::write(&file, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page, "docs/scenario-keys.md differs from the data model; `{COMMAND}` writes it anew");
}

#[test]
fn the_example_of_the_page_is_a_scenario() {
    let page = include_str!("../../../../docs/simulate.md");
    let example =
        page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    Scenario::parse(example, Path::new("example.toml"), &[]).expect("a scenario");
}

/// A key without a row would be refused nowhere.
#[test]
fn every_key_of_a_link_is_in_the_table_of_the_worlds() {
    let documented: Vec<_> = world::documented().into_iter().filter(|(of, ..)| *of == "`[[link]]`").collect();
    for row in Types::read().rows("LinkSpec") {
        let is_named = ["`name`", "`from`", "`to`"].contains(&row.name.as_str());
        assert!(is_named || documented.iter().any(|(_, keys, _)| keys.contains(&row.name)), "{}", row.name);
    }
}
