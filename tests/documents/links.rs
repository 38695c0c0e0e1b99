//! Links between the documents, as people follow them in the repository. (Those of the documentation that `cargo doc`
//! builds are looked at by `.ci/check-docs`.)

use std::path::{Path, PathBuf};

use super::{files, read, root};

/// Every document that people read in the repository.
fn documents() -> Vec<PathBuf> {
    let mut documents: Vec<_> = ["README", "DESIGN", "CHANGELOG", "CONTRIBUTING"]
        .iter()
        .map(|name| root().join(format!("{name}.md")))
        .collect();
    for directory in ["docs", "tests", "benches"] {
        documents.extend(files(&root().join(directory), ".md"));
    }
    documents
}

/// The lines that are no code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence {
            is_code = !is_code;
        }
        !is_code && !is_fence
    })
}

/// Where the links of a line lead: `[…](target)`, and definitions, `[…]: target`.
fn targets(line: &str) -> Vec<&str> {
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        return vec![target.trim()];
    }
    let after = line.split("](").skip(1);
    after.filter_map(|rest| rest.split(')').next()).collect()
}

/// The names that are used as links to definitions: `[…][name]`.
fn names(line: &str) -> Vec<&str> {
    let after = line.split("][").skip(1);
    after.filter_map(|rest| rest.split(']').next()).collect()
}

/// As GitHub makes it of a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    heading
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn has_heading(document: &Path, wanted: &str) -> bool {
    let text = read(document);
    let mut headings = prose(&text).filter(|line| line.starts_with('#'));
    headings.any(|heading| anchor(heading) == wanted)
}

#[test]
fn every_link_between_documents_leads_to_a_file_and_a_heading_that_are_there() {
    let mut count = 0;
    for document in documents() {
        let text = read(&document);
        // A link may go on in the next line.
        let prose: Vec<_> = prose(&text).collect();
        for line in prose.iter().copied() {
            for target in targets(line) {
                if target.contains("://") {
                    continue;
                }
                count += 1;
                let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
                let there = match file {
                    "" => document.clone(),
                    file => document.parent().unwrap().join(file),
                };
                let told = format!("{}: {target}", document.display());
                assert!(there.exists(), "{told} is not there");
                assert!(
                    wanted.is_empty() || has_heading(&there, wanted),
                    "{told}: no such heading"
                );
            }
            for name in names(line) {
                let definition = format!("\n[{name}]: ");
                assert!(
                    text.contains(&definition),
                    "{}: [{name}] is not defined",
                    document.display()
                );
            }
        }
    }
    assert!(
        count >= 40,
        "{count} links were found, where there are many"
    );
}

#[test]
fn every_document_of_users_is_in_the_guide_and_in_the_readme() {
    let guide = read(&root().join("src/guide.rs"));
    let readme = read(&root().join("README.md"));
    for document in files(&root().join("docs"), ".md") {
        let name = document.file_name().unwrap().to_string_lossy();
        assert!(guide.contains(&format!("\"../docs/{name}\"")), "{name}");
        assert!(readme.contains(&format!("(docs/{name})")), "{name}");
    }
    assert!(guide.contains("\"../DESIGN.md\""));
}
