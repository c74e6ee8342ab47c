//! What a program can see of grammar in documents: a word twice, a wrong article, and how many sentences are passive.

use super::{File, Tree, words};

/// Most passive sentences of a page, in percent. Where who acts does not matter, the passive is right.
const PASSIVE_MAX: usize = 35;
/// A page with fewer sentences has no share.
const SENTENCES_MIN: usize = 20;
/// A participle follows one of these in the passive, with an adverb between at most.
const BEING: [&str; 7] = ["is", "are", "was", "were", "be", "been", "being"];
const ADVERBS: [&str; 8] = ["not", "also", "never", "only", "then", "often", "always", "still"];
/// Participles that do not end in `ed`.
const IRREGULAR: [&str; 24] = [
    "begun", "bound", "built", "chosen", "cut", "found", "given", "held", "hidden", "kept", "known", "left", "lost",
    "made", "read", "run", "seen", "sent", "shown", "split", "taken", "told", "woken", "written",
];
/// Begin with a vowel, and not with the sound of one.
const LIKE_YOU: [&str; 7] = ["eu", "one", "uni", "unix", "url", "us", "uu"];
/// Begin with the sound of a vowel, though not with one.
const LIKE_AN: [&str; 4] = ["heir", "honest", "hour", "x86"];

pub fn check(tree: &Tree, out: &mut Vec<String>) {
    for File { path, text } in tree.files.iter().filter(|f| words::is_document(&f.path)) {
        let sentences = words::prose_sentences(text);
        for sentence in &sentences {
            if let Some(word) = doubled(sentence) {
                out.push(format!("{path}: \"{word} {word}\": {sentence}"));
            }
            if let Some(wrong) = wrong_article(sentence) {
                out.push(format!("{path}: \"{wrong}\" has the wrong article: {sentence}"));
            }
        }
        let passive = sentences.iter().filter(|s| is_passive(s)).count();
        if sentences.len() >= SENTENCES_MIN && passive * 100 > PASSIVE_MAX * sentences.len() {
            let share = passive * 100 / sentences.len();
            out.push(format!("{path}: {share} % of the sentences are passive, more than {PASSIVE_MAX}; name who acts"));
        }
    }
}

fn plain(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

/// A word that stands twice, with nothing between.
fn doubled(sentence: &str) -> Option<String> {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let is_word = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_alphabetic());
    let is_twice = |w: &&[&str]| is_word(w[0]) && w[0] == w[1].trim_end_matches(['.', ',', ';', ':', '?', '!']);
    words.windows(2).find(is_twice).map(|w| w[0].to_owned())
}

/// An article that does not fit the sound after it. What stands in back quotes or spelled letters is not judged.
fn wrong_article(sentence: &str) -> Option<String> {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    words.windows(2).find(|w| is_wrong(w[0], w[1])).map(|w| w.join(" "))
}

fn is_wrong(article: &str, next: &str) -> bool {
    let is_spelled = next.chars().nth(1).is_none_or(|c| !c.is_ascii_lowercase());
    let is_letter = next.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_spelled || !is_letter {
        return false;
    }
    let word = plain(next);
    let begins = |with: &[&str]| with.iter().any(|w| word.starts_with(w));
    let sounds = begins(&LIKE_AN) || (word.starts_with(['a', 'e', 'i', 'o', 'u']) && !begins(&LIKE_YOU));
    match article {
        "a" => sounds,
        "an" => !sounds,
        _ => false,
    }
}

fn is_passive(sentence: &str) -> bool {
    let words: Vec<String> =
        sentence.split_whitespace().map(plain).filter(|w| !ADVERBS.contains(&w.as_str())).collect();
    words.windows(2).any(|w| {
        let is_participle = w[1].ends_with("ed") || IRREGULAR.contains(&w[1].as_str());
        is_participle && BEING.contains(&w[0].as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_twice_is_found_and_one_in_two_roles_is_not() {
        assert_eq!(doubled("It is in the the folder").as_deref(), Some("the"));
        assert_eq!(doubled("What that, that one does"), None);
        assert_eq!(doubled("One by one, and 2 2"), None);
    }

    #[test]
    fn an_article_fits_the_sound_after_it() {
        assert_eq!(wrong_article("Take a answer").as_deref(), Some("a answer"));
        assert_eq!(wrong_article("Take an request").as_deref(), Some("an request"));
        for right in [
            "A is first",
            "a user",
            "an hour",
            "a unit",
            "an `x`",
            "an HTTP proxy",
            "a URL",
            "a one-byte echo",
            "an answer",
        ] {
            assert_eq!(wrong_article(right), None, "{right}");
        }
    }

    #[test]
    fn the_passive_is_a_form_of_be_and_a_participle() {
        assert!(is_passive("Records are dropped") && is_passive("It was not seen"));
        assert!(!is_passive("Wakepath drops records") && !is_passive("It is a red one"));
    }
}
