//! A program under test that goes on, and whose lines are read.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::PROGRAM;

/// A program that ends with the test.
pub struct Running {
    pub child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(arguments: &[&str]) -> Running {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env_remove("HEADWAY_TOKEN").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines }
    }

    pub fn serve() -> (Running, String) {
        let mut server = Running::start(&["serve", "--bind", "127.0.0.1", "--port", "0", "--json"]);
        let port = server.line()["port"].to_string();
        (server, port)
    }

    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
