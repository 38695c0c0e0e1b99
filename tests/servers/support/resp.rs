//! The protocol, as little of it as the tests need: a parser for every reply of RESP2 and RESP3,
//! and a raw client.
//!
//! The tests look at servers through this and never through the client under test.

use std::io::{self, ErrorKind};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A reply. RESP3's types are folded into RESP2's: maps become flat arrays, booleans integers, null
/// a `Bulk(None)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resp {
    /// `+OK`
    Simple(String),
    /// `-ERR …`, without the dash.
    Error(String),
    /// `:1`
    Int(i64),
    /// A string, or nothing. Bytes that are no UTF-8 are replaced.
    Bulk(Option<String>),
    /// An array, or nothing.
    Array(Option<Vec<Resp>>),
}

impl Resp {
    /// The text of a simple or bulk string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Simple(text) | Self::Bulk(Some(text)) => Some(text),
            _ => None,
        }
    }

    /// The integer.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The error's text.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Error(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of an array; none for anything else.
    pub fn items(&self) -> &[Resp] {
        match self {
            Self::Array(Some(items)) => items,
            _ => &[],
        }
    }

    /// Whether this is the null reply.
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Bulk(None) | Self::Array(None))
    }

    /// Whether this is `+OK`.
    pub fn is_ok(&self) -> bool {
        self.text() == Some("OK")
    }
}

/// Parses the frame at the start of `bytes`: it and its length, or `None` as long as it is not all
/// there.
pub fn parse(bytes: &[u8]) -> io::Result<Option<(Resp, usize)>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(bytes.get(1..end).unwrap_or_default()).into_owned();
    let body = end + 2;
    let number = || head.parse::<i64>().map_err(|_| malformed(bytes));
    let frame = match bytes[0] {
        b'+' | b',' | b'(' => Resp::Simple(head),
        b'-' => Resp::Error(head),
        b':' => Resp::Int(number()?),
        b'#' => Resp::Int(i64::from(head == "t")),
        b'_' => Resp::Bulk(None),
        kind @ (b'$' | b'!' | b'=') => return parse_bulk(bytes, body, kind, number()?),
        // A map has two frames for each entry. An attribute is a map that stands before the frame
        // it is about.
        b'*' | b'~' | b'>' => return parse_items(bytes, body, number()?),
        b'%' => return parse_items(bytes, body, number()?.saturating_mul(2)),
        b'|' => return parse_items(bytes, body, number()?.saturating_mul(2).saturating_add(1)),
        _ => return Err(malformed(bytes)),
    };
    Ok(Some((frame, body)))
}

/// The rest of a frame that is a string of `length` bytes.
fn parse_bulk(
    bytes: &[u8],
    body: usize,
    kind: u8,
    length: i64,
) -> io::Result<Option<(Resp, usize)>> {
    if length == -1 {
        return Ok(Some((Resp::Bulk(None), body)));
    }
    let length = usize::try_from(length).map_err(|_| malformed(bytes))?;
    if bytes.len() < body + length + 2 {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&bytes[body..body + length]).into_owned();
    let frame = if kind == b'!' {
        Resp::Error(text)
    } else {
        Resp::Bulk(Some(text))
    };
    Ok(Some((frame, body + length + 2)))
}

/// The rest of a frame that is `count` frames.
fn parse_items(bytes: &[u8], body: usize, count: i64) -> io::Result<Option<(Resp, usize)>> {
    if count == -1 {
        return Ok(Some((Resp::Array(None), body)));
    }
    let mut items = Vec::new();
    let mut end = body;
    for _ in 0..count {
        let Some((item, length)) = parse(&bytes[end..])? else {
            return Ok(None);
        };
        items.push(item);
        end += length;
    }
    Ok(Some((Resp::Array(Some(items)), end)))
}

/// Parses the command at the start of `bytes`, as a server does: its words and its length, or
/// `None` as long as it is not all there. Clients send some as arrays and some, such as fred's
/// HELLO, as a plain line.
pub fn parse_command(bytes: &[u8]) -> io::Result<Option<(Vec<String>, usize)>> {
    if bytes.first().is_none_or(|kind| *kind == b'*') {
        let parsed = parse(bytes)?;
        return Ok(parsed.map(|(frame, length)| {
            let words = frame
                .items()
                .iter()
                .filter_map(|word| word.text().map(str::to_owned));
            (words.collect(), length)
        }));
    }
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let line = String::from_utf8_lossy(&bytes[..end]);
    Ok(Some((
        line.split_whitespace().map(str::to_owned).collect(),
        end + 2,
    )))
}

/// The error for bytes that are no frame.
fn malformed(bytes: &[u8]) -> io::Error {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
    io::Error::new(
        ErrorKind::InvalidData,
        format!("not a RESP frame: {start:?}"),
    )
}

/// A command as it goes over the wire.
pub fn encode(command: &[&str]) -> Vec<u8> {
    let parts: Vec<_> = command
        .iter()
        .map(|part| format!("${}\r\n{part}\r\n", part.len()))
        .collect();
    format!("*{}\r\n{}", command.len(), parts.concat()).into_bytes()
}

/// A raw connection. It has no time limits of its own.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    /// Connects to `127.0.0.1:PORT`.
    pub async fn open(addr: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            unread: Vec::new(),
        })
    }

    /// Sends a command without waiting for its reply.
    pub async fn send(&mut self, command: &[&str]) -> io::Result<()> {
        self.stream.write_all(&encode(command)).await
    }

    /// Waits for the next reply.
    pub async fn read(&mut self) -> io::Result<Resp> {
        loop {
            if let Some((frame, length)) = parse(&self.unread)? {
                self.unread.drain(..length);
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Sends a command and waits for its reply.
    pub async fn call(&mut self, command: &[&str]) -> io::Result<Resp> {
        self.send(command).await?;
        self.read().await
    }
}
