//! Where steps go: into memory, and from a bound on to disk.

use super::Options;
use crate::replay::{Spool, SpoolWriter};
use crate::system::{ScriptId, Step};
use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// Takes the steps of all scripts.
pub(super) struct Steps {
    in_memory: Vec<Vec<Step>>,
    count: usize,
    max: usize,
    directory: PathBuf,
    on_disk: Option<SpoolWriter>,
    failed: Option<io::Error>,
    /// Nobody asks for steps.
    is_idle: bool,
}

/// All steps, the script's places in them; or where they lie.
pub(super) type Finished = (Vec<Step>, Vec<Range<usize>>, Option<Spool>);

impl Steps {
    pub fn new(scripts: usize, options: &Options<'_>) -> Steps {
        Steps {
            in_memory: vec![Vec::new(); scripts],
            count: 0,
            max: options.steps_max,
            directory: options.directory.to_owned(),
            on_disk: None,
            failed: None,
            is_idle: options.steps_max == 0,
        }
    }

    /// The next step of a script. What fails is told at the end.
    pub fn push(&mut self, script: ScriptId, step: Step) {
        // work of no length is no work
        if matches!(step, Step::Work { ns: 0, .. }) || self.failed.is_some() || self.is_idle {
            return;
        }
        let done = match &mut self.on_disk {
            Some(disk) => disk.push(script, step),
            None => {
                if self.in_memory.len() <= script.index() {
                    self.in_memory.resize_with(script.index() + 1, Vec::new);
                }
                self.in_memory[script.index()].push(step);
                self.count += 1;
                if self.count > self.max { self.move_out() } else { Ok(()) }
            }
        };
        self.failed = done.err();
    }

    fn move_out(&mut self) -> io::Result<()> {
        let mut disk = SpoolWriter::new(&self.directory)?;
        for (script, steps) in (0u32..).zip(&mut self.in_memory) {
            for step in std::mem::take(steps) {
                disk.push(ScriptId(script), step)?;
            }
        }
        self.on_disk = Some(disk);
        Ok(())
    }

    /// The end: steps of scripts that are not `kept` are gone.
    pub fn finish(mut self, kept: &[bool]) -> io::Result<Finished> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        if let Some(disk) = self.on_disk {
            return Ok((Vec::new(), vec![0..0; kept.len()], Some(disk.finish()?)));
        }
        let mut steps = Vec::with_capacity(self.count);
        let mut scripts = Vec::with_capacity(self.in_memory.len());
        for (script, is_kept) in self.in_memory.iter_mut().zip(kept) {
            let begin = steps.len();
            if *is_kept {
                steps.append(script);
            }
            scripts.push(begin..steps.len());
        }
        Ok((steps, scripts, None))
    }
}
