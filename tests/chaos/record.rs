//! What a client's process writes down, a line an event, and how it is read again.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{clock::now, hold::Hold};

/// Numbers a hold among all of all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct HoldId(pub(crate) u64);

/// The history that one process writes.
#[derive(Debug)]
pub(crate) struct Recorder {
    file: Mutex<File>,
    next: AtomicU64,
}

impl Recorder {
    pub(crate) fn create(path: &Path, process: usize) -> Self {
        let file = OpenOptions::new().create_new(true).append(true).open(path);
        Self {
            file: Mutex::new(file.expect("a file for the history")),
            next: AtomicU64::new((process as u64) << 32),
        }
    }

    /// In one write each, so that what was said before the process is stopped or killed is there.
    fn line(&self, text: &str) {
        let line = format!("{} {text}\n", now().as_nanos());
        let mut file = self.file.lock().unwrap();
        file.write_all(line.as_bytes()).expect("the history");
    }

    pub(crate) fn violation(&self, client: usize, what: &str) {
        self.line(&format!("violation {client} {}", what.replace('\n', " ")));
    }

    pub(crate) fn lost(&self, client: usize, what: &str) {
        self.line(&format!("lost {client} {}", what.replace('\n', " ")));
    }

    /// All that the process had to do is done.
    pub(crate) fn finished(&self) {
        self.line("finished");
    }

    pub(crate) fn hold(self: &Arc<Self>, hold: &Hold) -> Holding {
        let id = HoldId(self.next.fetch_add(1, Ordering::Relaxed));
        let resources: Vec<_> = hold.resources.iter().map(ToString::to_string).collect();
        self.line(&format!(
            "hold {} {} {} {} {} {} {}",
            id.0,
            hold.client,
            resources.join(","),
            hold.fence,
            hold.begun.as_nanos(),
            hold.from.as_nanos(),
            hold.until.as_nanos()
        ));
        Holding {
            recorder: Arc::clone(self),
            id,
            has_ended: false,
        }
    }

    /// The waiter for a signal ran at that time, and the validity ended at this.
    pub(crate) fn notice(&self, process: usize, end: Duration, ran: Duration, stalled: Duration) {
        self.line(&format!(
            "notice {process} {} {} {}",
            end.as_nanos(),
            ran.as_nanos(),
            stalled.as_nanos()
        ));
    }
}

/// A hold that lasts at most as long as this does: a call that is cancelled gives it up.
#[derive(Debug)]
pub(crate) struct Holding {
    recorder: Arc<Recorder>,
    id: HoldId,
    has_ended: bool,
}

impl Holding {
    pub(crate) fn id(&self) -> HoldId {
        self.id
    }

    /// The client has seen that it holds until then.
    pub(crate) fn valid(&self, until: Duration) {
        let line = format!("until {} {}", self.id.0, until.as_nanos());
        self.recorder.line(&line);
    }

    /// The place that it protects had somebody in it.
    pub(crate) fn found(&self, other: HoldId) {
        let line = format!("found {} {}", self.id.0, other.0);
        self.recorder.line(&line);
    }

    /// The client gives it up, or has learnt of its loss.
    pub(crate) fn ended(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            let line = format!("ended {} {}", self.id.0, now().as_nanos());
            self.recorder.line(&line);
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.ended();
    }
}

/// A look at the clock when a signal fired.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notice {
    pub(crate) process: usize,
    pub(crate) end: Duration,
    pub(crate) ran: Duration,
    /// For how much of the time between the two the process did not run at all.
    pub(crate) stalled: Duration,
}

/// The histories of all processes, joined.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) holds: HashMap<HoldId, Hold>,
    pub(crate) notices: Vec<Notice>,
    /// Who found whom in the place that it holds.
    pub(crate) found: Vec<(HoldId, HoldId)>,
    pub(crate) lost: u64,
    pub(crate) violations: Vec<String>,
    pub(crate) finished: usize,
    pub(crate) lines: Vec<(Duration, String)>,
}

impl History {
    pub(crate) fn read(&mut self, path: &Path) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        for line in text.lines() {
            self.line(line)
                .unwrap_or_else(|| panic!("a line of a history: {line:?}"));
        }
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let (at, event) = line.split_once(' ').unwrap_or((line, ""));
        self.lines.push((time(at)?, event.to_owned()));
        let (kind, rest) = event.split_once(' ').unwrap_or((event, ""));
        let mut words = rest.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        match kind {
            "until" => {
                let (hold, until) = (HoldId(number()?), number()?);
                let hold = self.holds.get_mut(&hold)?;
                hold.until = hold.until.max(Duration::from_nanos(until));
            }
            "ended" => {
                let (hold, at) = (HoldId(number()?), number()?);
                self.holds.get_mut(&hold)?.ended = Some(Duration::from_nanos(at));
            }
            "found" => self.found.push((HoldId(number()?), HoldId(number()?))),
            "notice" => {
                let process = usize::try_from(number()?).ok()?;
                let mut time = || number().map(Duration::from_nanos);
                self.notices.push(Notice {
                    process,
                    end: time()?,
                    ran: time()?,
                    stalled: time()?,
                });
            }
            "hold" => {
                let (id, hold) = hold(rest)?;
                self.holds.insert(id, hold);
            }
            "lost" => self.lost += 1,
            "violation" => self.violations.push(rest.to_owned()),
            "finished" => self.finished += 1,
            _ => return None,
        }
        Some(())
    }
}

fn hold(words: &str) -> Option<(HoldId, Hold)> {
    let mut words = words.split(' ');
    let id = HoldId(words.next()?.parse().ok()?);
    let client = words.next()?.parse().ok()?;
    let resources = words.next()?.split(',');
    let resources: Option<_> = resources.map(|resource| resource.parse().ok()).collect();
    let hold = Hold {
        client,
        resources: resources?,
        fence: words.next()?.parse().ok()?,
        begun: time(words.next()?)?,
        from: time(words.next()?)?,
        until: time(words.next()?)?,
        ended: None,
    };
    Some((id, hold))
}

fn time(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_nanos)
}
