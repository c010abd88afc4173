//! `evenkeel top`: a live picture of who uses what, and who waits because of whom.
//!
//! A thread asks the gate at every interval; this one draws and listens to keys, so that a gate
//! that is slow to answer never makes the keyboard so.

pub mod model;
pub mod view;

use std::io::IsTerminal;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::control::client::{Client, ControlArgs};
use crate::ctl::block_on;
use crate::exit::Exit;
use crate::status::Status;
use crate::{terminal, units};
use model::Picture;
use view::Choices;

/// How long keys are waited for before the picture is looked at again.
const KEY_PATIENCE: Duration = Duration::from_millis(100);

/// Arguments of `evenkeel top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel top
  evenkeel top --interval '250 ms'
  evenkeel top --once --interval '5 s'   one picture of the next five seconds, as text

Keys: q quit, s sort, p pause, up and down scroll, ? help. NO_COLOR turns colour off.")]
pub struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// Time between pictures.
    #[arg(long, default_value = "1 s", value_parser = parse_interval)]
    interval: Duration,
    /// Print one picture as text and end; the default if stdout is not a terminal.
    #[arg(long)]
    once: bool,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let span = units::parse_duration(text)
        .map_err(|error| format!("{error}; write it like {}", error.examples))?;
    let interval = Duration::from_nanos(span.0);
    let bounds = Duration::from_millis(50)..=Duration::from_hours(1);
    if bounds.contains(&interval) {
        Ok(interval)
    } else {
        Err("choose from 50 ms to 1 h".to_owned())
    }
}

/// Runs the subcommand.
///
/// # Errors
/// A gate that does not answer at the start, or a terminal that cannot be drawn on.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let client = args.control.client();
    let first = ask(&client)?;
    // The live picture needs a terminal; a pipe or a file gets one picture.
    if args.once || !std::io::stdout().is_terminal() {
        thread::sleep(args.interval);
        let picture = Picture::between(Some(&first), &ask(&client)?);
        let (width, height) = size_for_text(&picture);
        terminal::data(&text(&picture, &Choices::default(), width, height))?;
        return Ok(Exit::Success);
    }
    let answers = watch(client, args.interval);
    let mut live = Live::new(first);
    let mut screen = ratatui::try_init().context("cannot draw on this terminal; try --once")?;
    let ended = live.run(&mut screen, &answers);
    ratatui::restore();
    ended?;
    Ok(Exit::Success)
}

fn ask(client: &Client) -> anyhow::Result<Status> {
    block_on(client.get("/v1/status?detail=buckets"))
}

/// Asks the gate at every interval until nobody listens any more.
fn watch(client: Client, interval: Duration) -> Receiver<anyhow::Result<Status>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || {
        loop {
            thread::sleep(interval);
            if sender.send(ask(&client)).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Room for the whole picture: the terminal's width if there is one, and all rows.
fn size_for_text(picture: &Picture) -> (u16, u16) {
    let (width, _) = ratatui::crossterm::terminal::size().unwrap_or((80, 24));
    let Picture { rows, backends, parts, pairs, .. } = picture;
    let lines = 30 + 2 * rows.len() + backends.len() + parts.len() + pairs.len();
    (width.max(80), u16::try_from(lines).unwrap_or(u16::MAX).min(1000))
}

/// The picture as text, without empty lines at its end.
pub fn text(picture: &Picture, choices: &Choices, width: u16, height: u16) -> String {
    let backend = TestBackend::new(width, height);
    let mut screen = Terminal::new(backend).expect("memory can be drawn on");
    screen.draw(|frame| view::draw(frame, picture, choices)).expect("memory can be drawn on");
    let buffer = screen.backend().buffer();
    let mut lines: Vec<String> = buffer
        .content()
        .chunks(usize::from(width))
        .map(|cells| cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>())
        .map(|line| line.trim_end().to_owned())
        .collect();
    // The keys make no sense on paper, nor does the gap above them.
    lines.pop();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

/// The live picture.
struct Live {
    last: Status,
    picture: Picture,
    choices: Choices,
}

impl Live {
    fn new(first: Status) -> Self {
        let picture = Picture::between(None, &first);
        let choices = Choices { colour: terminal::colour_allowed(), ..Choices::default() };
        Self { last: first, picture, choices }
    }

    fn run(
        &mut self,
        screen: &mut ratatui::DefaultTerminal,
        answers: &Receiver<anyhow::Result<Status>>,
    ) -> anyhow::Result<()> {
        loop {
            self.take(answers);
            self.picture.sort(self.choices.order);
            screen.draw(|frame| view::draw(frame, &self.picture, &self.choices))?;
            if event::poll(KEY_PATIENCE)?
                && let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
                && !self.obey(key)
            {
                return Ok(());
            }
        }
    }

    /// Takes the newest answer, if there is one.
    fn take(&mut self, answers: &Receiver<anyhow::Result<Status>>) {
        match answers.try_recv() {
            Ok(Ok(status)) => {
                self.choices.trouble = None;
                if !self.choices.paused {
                    self.picture = Picture::between(Some(&self.last), &status);
                }
                self.last = status;
            }
            Ok(Err(error)) => self.choices.trouble = Some(error.to_string()),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
    }

    /// False if the key ends it.
    fn obey(&mut self, key: KeyEvent) -> bool {
        let choices = &mut self.choices;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc if choices.help => choices.help = false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if control => return false,
            KeyCode::Char('?' | 'h') => choices.help = !choices.help,
            KeyCode::Char('s') => choices.order = choices.order.next(),
            KeyCode::Char('p' | ' ') => choices.paused = !choices.paused,
            KeyCode::Up => choices.scrolled = choices.scrolled.saturating_sub(1),
            KeyCode::Down => {
                let last = self.picture.rows.len().saturating_sub(1);
                choices.scrolled = (choices.scrolled + 1).min(last);
            }
            _ => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Detail;
    use crate::testing::{sample_policy, sample_report};

    #[test]
    fn keys_do_what_the_footer_says() {
        let status = Status::new(&sample_report(), &sample_policy(), Detail::Buckets);
        let mut live = Live::new(status);
        let mut press = |code| live.obey(KeyEvent::new(code, KeyModifiers::NONE));
        assert!(
            press(KeyCode::Char('s')) && press(KeyCode::Char('p')) && press(KeyCode::Char('?'))
        );
        assert!(press(KeyCode::Esc), "it closes the help first");
        assert!(!press(KeyCode::Char('q')));
        assert_eq!(live.choices.order, model::Order::Offered);
        assert!(live.choices.paused && !live.choices.help);
    }

    #[test]
    fn an_interval_is_neither_a_blink_nor_a_day() {
        assert_eq!(parse_interval("250 ms"), Ok(Duration::from_millis(250)));
        assert!(parse_interval("1 ns").is_err() && parse_interval("24 h").is_err());
        assert!(parse_interval("1").is_err());
    }
}
