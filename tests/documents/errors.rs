//! `docs/troubleshooting.md` has every text that an error can have.

use super::{files, read, root};

/// What stands in the document for a name, a number, or whatever else differs.
const ANY: char = '…';

/// Without the marks of code, which both sides may have within a text.
fn plain(text: &str) -> String {
    text.chars().filter(|&c| c != '`').collect()
}

fn document() -> String {
    plain(&read(&root().join("docs/troubleshooting.md")))
}

/// The text of a string literal that begins here, as the document writes it.
fn literal(source: &str) -> String {
    let (mut text, mut depth, mut is_escaped) = (String::new(), 0, false);
    for c in source.chars() {
        match c {
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            '"' if !is_escaped => break,
            '{' => {
                depth += 1;
                text.push(ANY);
            }
            '}' => depth -= 1,
            c if depth == 0 => text.push(c),
            _ => {}
        }
        is_escaped = false;
    }
    plain(&text)
}

/// The texts of all `#[error("…")]` of the sources.
fn error_texts() -> Vec<String> {
    let mut texts = Vec::new();
    for path in files(&root().join("src"), ".rs") {
        let source = read(&path);
        for attribute in source.split("#[error(").skip(1) {
            if let Some(text) = attribute.trim_start().strip_prefix('"') {
                texts.push(literal(text));
            }
        }
    }
    // What is nothing but the words of somebody else.
    texts.retain(|text| text.chars().any(|c| c != ANY));
    texts
}

#[test]
fn every_error_text_of_the_sources_is_in_the_document() {
    let document = document();
    let texts = error_texts();
    assert!(texts.len() >= 45, "{} texts: {texts:?}", texts.len());
    let missing: Vec<_> = texts
        .iter()
        .filter(|text| !document.contains(text.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The texts in the first column of the tables of a section.
fn told(section: &str) -> Vec<String> {
    let text = read(&root().join("docs/troubleshooting.md"));
    let after = text.split(&format!("\n## {section}\n")).nth(1).unwrap();
    let section = after.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.trim_start_matches("| ").split(" | ").next().unwrap());
    cells
        .flat_map(|cell| cell.split("`, `"))
        .map(plain)
        .collect()
}

/// Is every fixed part of a text in the sources?
fn is_of(sources: &str, text: &str) -> bool {
    text.split(ANY)
        .map(|part| part.trim_matches([' ', ':', ',', '(']))
        .filter(|part| !part.is_empty())
        .all(|part| sources.contains(part))
}

#[test]
fn every_text_that_the_document_has_of_the_tool_and_of_masters_is_one_of_theirs() {
    let all = |directory: &str| {
        let files = files(&root().join(directory), ".rs");
        let sources: String = files.iter().map(|path| read(path)).collect();
        plain(&sources)
    };
    let tool = all("src/bin");
    let texts = told("The command-line tool");
    assert!(texts.len() >= 18, "{texts:?}");
    for text in texts {
        assert!(is_of(&tool, &text), "{text}");
    }
    let library = all("src");
    let texts = told("What a master answered");
    assert!(texts.len() >= 15, "{texts:?}");
    // The words of servers are theirs: NOPERM and its like.
    let ours = |text: &&String| !text.starts_with(|c: char| c.is_uppercase());
    for text in texts.iter().filter(ours) {
        assert!(is_of(&library, text), "{text}");
    }
}
