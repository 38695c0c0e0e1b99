//! Man pages.

use std::process::Command;

use crate::support::{server::Server, servers::Servers};
use crate::tool::{outcome, output, tool};

/// Each command, with its exit statuses; the tool itself has no name.
const STATUSES: [(&str, &[&str]); 8] = [
    ("", &["0", "64", "69", "71", "75"]),
    (
        "run",
        &[
            "that of the command",
            "64",
            "69",
            "71",
            "75",
            "76",
            "126",
            "127",
            "128 + N",
        ],
    ),
    ("inspect", &["0", "64", "69", "71"]),
    ("doctor", &["0", "1", "2", "64", "71"]),
    ("init", &["0", "64", "69", "71", "75"]),
    ("break", &["0", "1", "64", "69", "71"]),
    ("completions", &["0", "64", "71"]),
    ("man", &["0", "64", "71"]),
];

async fn help(words: &[&str]) -> String {
    String::from_utf8(output(tool(words)).await.stdout).unwrap()
}

/// As `man` shows it, and what was found wrong with it.
fn rendered(path: &std::path::Path) -> (String, String) {
    let groff = Command::new("groff")
        .args(["-k", "-ww", "-man", "-Tutf8", "-P-cbou", "-rLL=200n"])
        .arg(path)
        .output()
        .expect(
            "`groff`, which this test needs: apt-get install groff-base, or brew install groff",
        );
    (
        String::from_utf8(groff.stdout).unwrap(),
        String::from_utf8(groff.stderr).unwrap(),
    )
}

/// The lines of a section, without what they are indented by.
fn section<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = page.lines().skip_while(|line| *line != heading).skip(1);
    lines
        .take_while(|line| line.is_empty() || line.starts_with(' '))
        .filter(|line| !line.trim().is_empty())
        .collect()
}

#[tokio::test]
async fn every_command_has_a_page_that_renders_without_warnings_and_has_its_exit_statuses() {
    let server = Server::start().await;
    let directory = server.path("man/man1");
    let ended = outcome(tool(&["man", directory.to_str().unwrap()])).await;
    assert_eq!(ended, (0, String::new()));
    let listed = help(&["--help"]).await;
    let listed = listed.split_once("Commands:").unwrap().1.lines().skip(1);
    let listed: Vec<_> = listed
        .map_while(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    let known: Vec<_> = STATUSES[1..].iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, known);
    let written = std::fs::read_dir(&directory).unwrap().count();
    assert_eq!(written, STATUSES.len());
    for (command, statuses) in STATUSES {
        let name = if command.is_empty() {
            "fredlock".to_owned()
        } else {
            format!("fredlock-{command}")
        };
        let (page, warnings) = rendered(&directory.join(format!("{name}.1")));
        assert_eq!(warnings, "", "{name}");
        assert!(
            page.starts_with(&format!("{}(1)", name.to_uppercase())),
            "{page}"
        );
        for heading in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "EXIT STATUS",
            "EXAMPLES",
            "SEE ALSO",
        ] {
            assert!(
                !section(&page, heading).is_empty(),
                "{name}: {heading}: {page}"
            );
        }
        assert!(
            section(&page, "NAME")[0]
                .trim()
                .starts_with(&format!("{name} - ")),
            "{page}"
        );
        assert!(!page.contains('`'), "{name}: {page}");
        // One term begins at the margin of the section, and what it means does not.
        let found = section(&page, "EXIT STATUS");
        for status in statuses {
            let is_there = |line: &&str| {
                line.strip_prefix("       ")
                    .is_some_and(|line| line.starts_with(status))
            };
            assert!(found.iter().any(is_there), "{name}: {status}: {found:#?}");
        }
        let margin = |line: &&&str| line.starts_with("       ") && !line.starts_with("        ");
        let more = usize::from(command.is_empty());
        assert_eq!(
            found.iter().filter(margin).count(),
            statuses.len() + more,
            "{name}: {found:#?}"
        );
        // Help says the same.
        let words = if command.is_empty() {
            vec!["--help"]
        } else {
            vec!["help", command]
        };
        let help = help(&words).await;
        let told = help.split_once("Exit status:").unwrap().1;
        for status in statuses {
            let is_there = told
                .lines()
                .any(|line| line.starts_with(&format!("  {status} ")));
            assert!(is_there, "{name}: {status}: {help}");
        }
        for variable in help.split("[env: ").skip(1) {
            let variable = variable.split(['=', ']']).next().unwrap();
            let of_it = section(&page, "ENVIRONMENT");
            assert!(
                of_it.iter().any(|line| line.contains(variable)),
                "{name}: {variable}"
            );
        }
        for other in STATUSES.iter().filter(|(other, _)| *other != command) {
            let other = if other.0.is_empty() {
                "fredlock(1)".to_owned()
            } else {
                format!("fredlock-{}(1)", other.0)
            };
            let others = section(&page, "SEE ALSO").join(" ");
            assert!(others.contains(&other), "{name}: {other}: {others}");
        }
    }
}

#[tokio::test]
async fn pages_that_cannot_be_written_give_71() {
    let servers = Servers::start(1).await;
    let file = servers[0].path("no-directory");
    std::fs::write(&file, "").unwrap();
    for directory in [file.clone(), file.join("man1")] {
        let ended = outcome(tool(&["man", directory.to_str().unwrap()])).await;
        assert_eq!(ended.0, 71, "{ended:?}");
        assert!(ended.1.contains("name another directory"), "{ended:?}");
    }
}
