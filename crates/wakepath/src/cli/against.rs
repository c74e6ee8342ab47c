//! Flags that say what the selected requests are compared with.

use super::PartOfRequests;
use crate::moment::Moment;
use clap::Args;
use std::path::PathBuf;

/// What the selected requests are compared with: another recording, another period, or both.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Against {
    /// Compare with another recording, in which the same is selected (times such as +1.5s count from its own start)
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub against: Vec<PathBuf>,
    /// Compare with another period, which begins at this time; of the same recording, or of that of --against
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub against_from: Option<Moment>,
    /// End of the period to compare with
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub against_to: Option<Moment>,
}

impl Against {
    /// Whether nothing is compared.
    pub fn is_empty(&self) -> bool {
        *self == Against::default()
    }

    /// The folders on the other side; `own` where no other recording is given.
    pub fn folders<'a>(&'a self, own: &'a [PathBuf]) -> &'a [PathBuf] {
        if self.against.is_empty() { own } else { &self.against }
    }

    /// What is selected on the other side: the same, in the other period where one is given.
    pub fn part(&self, part: &PartOfRequests) -> PartOfRequests {
        match (self.against_from, self.against_to) {
            (None, None) => part.clone(),
            (from, to) => PartOfRequests { from, to, such: part.such.clone() },
        }
    }
}
