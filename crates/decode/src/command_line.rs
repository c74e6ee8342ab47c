//! Which words of a command line are kept: those that name what runs and how, never what somebody chose as a value.
//!
//! A command line holds passwords, tokens, addresses of people and statements, and nothing in it says which words these are. So a word is
//! kept for what its place and form show, and all else becomes `?` (`docs/privacy.md` has the rule for users).

use crate::recurring::is_value;

/// What stands for a word, or a part of one, that is left out.
const LEFT_OUT: u8 = b'?';
/// A longer name of an option, file or subcommand is none.
const NAME_BYTES_MAX: usize = 40;
/// Longer numbers may be telephone numbers or cards.
const DIGITS_MAX: usize = 6;

/// Parts of names of options and variables whose values are secret whatever they look like.
const SECRET: [&str; 14] = [
    "pass", "pwd", "secret", "token", "key", "auth", "cred", "sign", "cookie", "session", "private", "salt", "user",
    "login",
];
/// Short options whose values are secret, or users' names, in widely used programs, so that also a number or file is left out.
const SECRET_SHORT: &[u8] = b"aAuUPHEekw";
/// Names that programs write with one dash.
const ONE_DASH: [&str; 30] = [
    "-jar",
    "-cp",
    "-classpath",
    "-server",
    "-client",
    "-ea",
    "-esa",
    "-verbose",
    "-version",
    "-addr",
    "-bind",
    "-config",
    "-conf",
    "-data",
    "-debug",
    "-dir",
    "-file",
    "-format",
    "-host",
    "-http",
    "-level",
    "-listen",
    "-log",
    "-mode",
    "-name",
    "-path",
    "-port",
    "-quiet",
    "-root",
    "-timeout",
];
/// How names of files end whose names are those of programs, settings and data, not of people's values.
const ENDINGS: [&str; 34] = [
    "py",
    "pyc",
    "rb",
    "ru",
    "js",
    "mjs",
    "cjs",
    "ts",
    "jar",
    "war",
    "class",
    "php",
    "pl",
    "sh",
    "lua",
    "ex",
    "exs",
    "beam",
    "dll",
    "so",
    "conf",
    "cfg",
    "cnf",
    "ini",
    "json",
    "toml",
    "xml",
    "yaml",
    "yml",
    "properties",
    "sock",
    "pid",
    "log",
    "wasm",
];
/// Where paths begin: a word of base64 may begin with a slash, too.
const ROOT: [&str; 24] = [
    "app", "bin", "boot", "code", "data", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "nix", "opt", "proc",
    "root", "run", "sbin", "snap", "srv", "sys", "tmp", "usr", "var",
];
/// Programs that run another one, or a script: what they are followed by names what runs as much as they do.
const LAUNCHERS: [&str; 31] = [
    "python", "pypy", "node", "nodejs", "deno", "bun", "ruby", "perl", "php", "php-fpm", "java", "dotnet", "mono",
    "lua", "luajit", "sh", "bash", "dash", "zsh", "bundle", "npm", "npx", "yarn", "pnpm", "uv", "pipx", "poetry",
    "erl", "elixir", "mix", "beam.smp",
];
/// Words of the titles that servers give their processes.
const TITLE: [&str; 32] = [
    "master",
    "worker",
    "process",
    "cache",
    "manager",
    "loader",
    "pool",
    "main",
    "checkpointer",
    "background",
    "writer",
    "walwriter",
    "autovacuum",
    "launcher",
    "logical",
    "replication",
    "archiver",
    "stats",
    "collector",
    "idle",
    "in",
    "transaction",
    "startup",
    "walsender",
    "walreceiver",
    "io",
    "parallel",
    "for",
    "listener",
    "scheduler",
    "server",
    "cluster",
];

/// A command line as it may be kept: the words of `raw`, which are separated by NUL, separated by spaces.
pub fn masked(raw: &[u8]) -> Vec<u8> {
    let mut words: Vec<&[u8]> = raw.split(|&b| b == 0).filter(|word| !word.is_empty()).collect();
    // a program that gives itself a title writes it as one word
    if let [title] = words[..] {
        words = title.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    }
    let mut out = Vec::with_capacity(raw.len());
    let Some((program, rest)) = words.split_first() else { return out };
    keep(&mut out, Form::read(program).is_program().then_some(*program));
    if program.ends_with(b":") {
        for word in rest {
            out.push(b' ');
            keep(&mut out, is_of_title(word).then_some(*word));
        }
        return out;
    }
    let mut reader = Reader::begin(program);
    for word in rest {
        out.push(b' ');
        reader.word(word, &mut out);
    }
    out
}

/// The program alone, for a process that was not selected.
pub fn program_of(comm: &[u8]) -> &[u8] {
    // a process names itself too, and its name may be a title
    let end = comm.iter().position(|b| b.is_ascii_whitespace() || *b == 0).unwrap_or(comm.len());
    if Form::read(&comm[..end]).is_program() { &comm[..end] } else { b"?" }
}

fn keep(out: &mut Vec<u8>, word: Option<&[u8]>) {
    match word {
        Some(word) => out.extend_from_slice(word),
        None => out.push(LEFT_OUT),
    }
}

/// Reads words in order.
struct Reader<'a> {
    program: &'a str,
    is_launcher: bool,
    /// The option just before, which may have this word as its value.
    option: Option<&'a [u8]>,
    /// Words that are no options and may yet name what runs.
    names: u8,
}

impl<'a> Reader<'a> {
    fn begin(program: &'a [u8]) -> Reader<'a> {
        let program = std::str::from_utf8(program).unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default();
        // python3.11 is python
        let kind = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let is_launcher = LAUNCHERS.contains(&program) || LAUNCHERS.contains(&kind);
        Reader { program: kind, is_launcher, option: None, names: if is_launcher { 2 } else { 1 } }
    }

    fn word(&mut self, word: &'a [u8], out: &mut Vec<u8>) {
        if let Some(bare) = word.strip_prefix(b"-").filter(|bare| !bare.is_empty()) {
            self.option = option(word, bare, out);
            return;
        }
        let form = Form::read(word);
        let kept = match self.option.take() {
            Some(option) if self.names_a_program(option) => form.is_name() || form.is_file(),
            // some of their short options have no value: what follows is the script
            Some(_) if self.is_launcher && is_script(form) => form.is_file(),
            Some(option) if is_secret(option) => false,
            Some(b"-p") => form.is_number(),
            Some(_) => return value(form, out),
            None if form.is_number() || form.is_place() => true,
            None => {
                let is_named = self.names > 0 && (form.is_name() || form.is_file() || form.is_module());
                // files do not count: a script may come after settings
                self.names -= u8::from(self.names > 0 && !(form.is_file() && self.names == 1 && !is_script(form)));
                if !is_named {
                    return assigned(word, out);
                }
                true
            }
        };
        keep(out, kept.then_some(word));
    }

    /// Options that are followed by what runs.
    fn names_a_program(&self, option: &[u8]) -> bool {
        match option {
            b"-m" => matches!(self.program, "python" | "pypy" | "java"),
            b"--module" => self.program == "java",
            b"-jar" => self.program == "java",
            b"-A" | b"--app" => matches!(self.program, "celery" | "flask"),
            _ => false,
        }
    }
}

/// An option: its name, and what is written in the same word. Gives it where the next word may be its value.
fn option<'a>(word: &'a [u8], bare: &[u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    if bare == b"-" {
        out.extend_from_slice(word);
        return None;
    }
    // a variable or setting is named in the option's own word: -Dserver.port=80, -XX:+UseG1GC, --log:level
    let end = word.iter().position(|b| matches!(b, b'=' | b':'));
    let (name, rest) = word.split_at(end.unwrap_or(word.len()));
    let is_long = bare.starts_with(b"-") || ONE_DASH.iter().any(|known| known.as_bytes() == name);
    let is_java = name.starts_with(b"-D")
        || name == b"-XX"
        || name == b"-javaagent"
        || name == b"-agentlib"
        || name == b"-agentpath";
    if is_long || is_java && !rest.is_empty() {
        let is_named = Form::read(name.trim_ascii_start_dashes()).is_option();
        keep(out, is_named.then_some(name));
        if let Some((mark, inside)) = rest.split_first() {
            out.push(*mark);
            let form = Form::read(inside);
            match () {
                () if name == b"-XX" => setting(inside, out),
                () if is_secret(name) || !is_named => out.push(LEFT_OUT),
                () => value(form, out),
            }
        }
        return end.is_none().then_some(if is_named { word } else { b"--password" });
    }
    short(word, bare, out)
}

/// Short options, and what is written after one without a space.
fn short<'a>(word: &'a [u8], bare: &[u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (letter, rest) = bare.split_at(1);
    let is_few =
        bare.len() <= 3 && bare.iter().all(u8::is_ascii_alphabetic) && !is_secret(&word[..2]) && letter != b"p";
    if bare.len() == 1 && letter[0].is_ascii_alphanumeric() || is_few {
        out.extend_from_slice(word);
        return Some(word);
    }
    out.push(b'-');
    if !letter[0].is_ascii_alphanumeric() {
        out.push(LEFT_OUT);
        return None;
    }
    out.extend_from_slice(letter);
    if !rest.is_empty() {
        let (is_heap, size) = match rest.strip_prefix(b"mx").or(rest.strip_prefix(b"ms")).or(rest.strip_prefix(b"ss")) {
            Some(size) if letter == b"X" => (true, size),
            _ => (false, rest),
        };
        let form = Form::read(size);
        if is_heap {
            out.extend_from_slice(&rest[..2]);
        }
        keep(out, (form.is_number() && !is_secret(&word[..2])).then_some(size));
    }
    None
}

/// A setting of the JVM: a name, on, off or with a value.
fn setting(inside: &[u8], out: &mut Vec<u8>) {
    let end = inside.iter().position(|b| *b == b'=').unwrap_or(inside.len());
    let (name, rest) = inside.split_at(end);
    let plain = name.strip_prefix(b"+").or(name.strip_prefix(b"-")).unwrap_or(name);
    let is_named = plain.len() <= 64 && plain.iter().all(u8::is_ascii_alphanumeric) && !is_value_of(plain);
    keep(out, is_named.then_some(name));
    if let Some(inside) = rest.strip_prefix(b"=") {
        out.push(b'=');
        value(Form::read(inside), out);
    }
}

/// A value: kept where it is a number, a place to listen at or a file, and of an address the host.
fn value(form: Form<'_>, out: &mut Vec<u8>) {
    if form.is_number() || form.is_place() || form.is_file() {
        out.extend_from_slice(form.text.as_bytes());
    } else if !url(form, out) {
        out.push(LEFT_OUT);
    }
}

/// A word that is neither an option nor a value of one, and names nothing: an address, a variable that is set, or anything.
fn assigned(word: &[u8], out: &mut Vec<u8>) {
    let form = Form::read(word);
    if form.is_file() || url(form, out) {
        if form.is_file() {
            out.extend_from_slice(word);
        }
        return;
    }
    if let Some((name, inside)) = form.text.split_once('=')
        && (Form { text: name }).is_variable()
    {
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        match is_secret(name.as_bytes()) {
            true => out.push(LEFT_OUT),
            false => value(Form { text: inside }, out),
        }
        return;
    }
    out.push(LEFT_OUT);
}

/// An address of a scheme: the host of it is kept. False where it is none.
fn url(form: Form<'_>, out: &mut Vec<u8>) -> bool {
    let Some((scheme, rest)) = form.text.split_once("://") else { return false };
    let is_scheme =
        scheme.len() <= 24 && scheme.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'+' | b':' | b'.'));
    if !is_scheme {
        return false;
    }
    out.extend_from_slice(scheme.as_bytes());
    out.extend_from_slice(b"://");
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let is_host = !name.is_empty()
        && !is_value_of(name.as_bytes())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-'))
        && port.is_none_or(|port| port.len() <= 5 && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    // a password with a slash ends what looks like the host
    if !is_host || path.contains('@') {
        out.push(LEFT_OUT);
        return true;
    }
    if user.is_some() {
        out.extend_from_slice(b"?@");
    }
    out.extend_from_slice(host.as_bytes());
    if !path.is_empty() && path != "/" {
        out.extend_from_slice(b"/?");
    }
    true
}

fn is_of_title(word: &[u8]) -> bool {
    let inside = word.strip_prefix(b"[").and_then(|w| w.strip_suffix(b"]"));
    let form = Form::read(inside.unwrap_or(word));
    TITLE.contains(&form.text)
        || inside.is_some() && (form.is_name() || form.is_module())
        || form.is_file() && word.starts_with(b"/")
}

fn is_script(form: Form<'_>) -> bool {
    ["py", "rb", "js", "mjs", "cjs", "ts", "jar", "php", "pl", "sh", "dll"].iter().any(|e| form.ends_in(e))
}

/// Whether the value of an option or variable of this name is secret whatever it looks like.
fn is_secret(name: &[u8]) -> bool {
    if let [b'-', letter] = name {
        return SECRET_SHORT.contains(letter);
    }
    let lower = name.to_ascii_lowercase();
    let has = |part: &str| lower.windows(part.len()).any(|at| at == part.as_bytes());
    SECRET.iter().any(|part| has(part)) && !["file", "path", "dir"].iter().any(|end| lower.ends_with(end.as_bytes()))
}

fn is_value_of(word: &[u8]) -> bool {
    std::str::from_utf8(word).map_or(true, is_value)
}

trait Dashes {
    fn trim_ascii_start_dashes(&self) -> &[u8];
}

impl Dashes for [u8] {
    fn trim_ascii_start_dashes(&self) -> &[u8] {
        let dashes = self.iter().take_while(|b| **b == b'-').count();
        &self[dashes..]
    }
}

/// What a word looks like.
#[derive(Clone, Copy)]
struct Form<'a> {
    /// Empty where it is no text.
    text: &'a str,
}

impl<'a> Form<'a> {
    fn read(word: &'a [u8]) -> Form<'a> {
        Form { text: std::str::from_utf8(word).unwrap_or_default() }
    }

    /// Only such letters, digits and marks, and nothing that looks like a value.
    fn is_of(self, marks: &[u8]) -> bool {
        let text = self.text;
        !text.is_empty()
            && text.len() <= NAME_BYTES_MAX
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || marks.contains(&b))
            && !is_value(text)
    }

    /// A number, also with a unit, and an address to listen at.
    fn is_number(self) -> bool {
        let digits = self.text.trim_start_matches('-').trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
        let unit = self.text.len() - digits.len();
        let count = digits.bytes().filter(u8::is_ascii_digit).count();
        unit <= 2 && (1..=DIGITS_MAX).contains(&count) && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    }

    /// A port with an address of this host, or of a number: `*:6379`, `127.0.0.1:80`, `[::]:80`, `:80`.
    fn is_place(self) -> bool {
        let (host, port) = self.text.rsplit_once(':').unwrap_or((self.text, ""));
        let is_port = port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit());
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let is_host = matches!(host, "*" | "localhost") || host.parse::<std::net::IpAddr>().is_ok();
        is_port && (is_host || host.is_empty() && !port.is_empty()) || self.text.parse::<std::net::IpAddr>().is_ok()
    }

    /// A file or folder, by a path from a known place or by its name's ending.
    fn is_file(self) -> bool {
        let from_root =
            self.text.strip_prefix('/').filter(|path| ROOT.contains(&path.split('/').next().unwrap_or_default()));
        let from_here = ["./", "../", "~/"].iter().find_map(|begin| self.text.strip_prefix(begin));
        let is_known = ENDINGS.iter().any(|ending| self.ends_in(ending));
        let path = match (from_root.or(from_here), is_known) {
            (Some(path), _) => path,
            (None, true) => self.text,
            _ => return false,
        };
        !path.is_empty() && path.split('/').all(|part| part.is_empty() || part == ".." || Form { text: part }.is_part())
    }

    /// A part of a path: words with marks between, of which none looks like a value.
    fn is_part(self) -> bool {
        let is_plain = |word: &str| !is_mixed(word) && !is_value(word);
        self.text.len() <= 64
            && self.text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+@".contains(&b))
            && self.text.split(['.', '_', '-', '+', '@']).all(is_plain)
    }

    fn ends_in(self, ending: &str) -> bool {
        self.text.strip_suffix(ending).is_some_and(|name| name.len() > 1 && name.ends_with('.'))
    }

    fn is_program(self) -> bool {
        let text = self.text.strip_suffix(':').unwrap_or(self.text);
        let text = text.strip_prefix('-').unwrap_or(text);
        !text.is_empty() && text.split('/').all(|part| part.is_empty() || Form { text: part }.is_part())
    }

    /// The name of an option, without its dashes.
    fn is_option(self) -> bool {
        self.is_of(b"-_.") && !self.text.split(['-', '_', '.']).any(is_mixed)
    }

    /// The name of a variable that is set before a command, or for one.
    fn is_variable(self) -> bool {
        self.is_of(b"_")
            && self.text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            && !is_mixed(self.text)
    }

    /// A subcommand, or another plain word: lower-case letters with dashes, as `runserver`, `exec`, `cache:clear`.
    fn is_name(self) -> bool {
        let is_plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
        self.is_module() || self.is_of(b"-_:") && self.text.split(['-', '_', ':']).all(is_plain)
    }

    /// A module, class or application: `http.server`, `shop.wsgi:app`, `com.shop.Main`.
    fn is_module(self) -> bool {
        let is_word = |part: &str| {
            let mut bytes = part.bytes();
            bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
                && bytes.all(|b| b.is_ascii_alphabetic() || b == b'_')
                && !is_mixed(part)
        };
        self.is_of(b"_.:") && self.text.contains(['.', ':']) && self.text.split(['.', ':']).all(is_word)
    }
}

/// Whether letters' kinds change as they do in random text: a digit before a letter after others, capitals after small letters that no
/// word begins with.
fn is_mixed(word: &str) -> bool {
    let kind = |b: u8| match b {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 0,
    };
    let kinds: Vec<u8> = word.bytes().map(kind).collect();
    let changes = kinds.windows(2).filter(|w| w[0] != w[1]).count();
    let digits = kinds.iter().filter(|k| **k == 3).count();
    // python3, x86_64, amd64, GunicornApp, utf8mb4: one or two changes, or a capital every few letters
    changes >= 3 && (digits > 0 || changes * 3 >= word.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(words: &[&str]) -> String {
        String::from_utf8(masked(words.join("\0").as_bytes())).expect("it is text")
    }

    #[test]
    fn what_names_a_program_stays() {
        for words in [
            &["/usr/bin/python3", "/usr/bin/gunicorn", "shop.wsgi", "--workers", "4", "--bind", "127.0.0.1:8000"][..],
            &["gunicorn", "shop.wsgi:application", "-w", "?"],
            &["java", "-Xmx512m", "-XX:+UseG1GC", "-Dserver.port=8080", "-jar", "app.jar"],
            &["java", "-cp", "/opt/shop/lib", "com.shop.Main"],
            &["python3", "manage.py", "runserver", "0.0.0.0:8000"],
            &["python3", "-m", "http.server", "8000"],
            &["python3", "-u", "/srv/app/worker.py"],
            &["celery", "-A", "shop", "worker", "--concurrency=4"],
            &["node", "server.js"],
            &["npm", "run", "start"],
            &["uvicorn", "main:app", "--port", "8000"],
            &["/usr/bin/redis-server", "*:6379"],
            &["nginx:", "worker", "process"],
            &["nginx", "-c", "/etc/nginx/nginx.conf", "-p", "?"],
            &["postgres", "-D", "/var/lib/postgresql/15/main", "-p", "5432"],
            &["bundle", "exec", "puma", "-C", "config/puma.rb"],
            &["dotnet", "Shop.dll"],
            &["/usr/lib/jvm/java-17-openjdk-amd64/bin/java", "-server", "-jar", "/opt/shop/shop-1.2.jar"],
            &["sleep", "0.02"],
            &["sshd:", "?", "[priv]"],
            &["gunicorn:", "master", "[shop.wsgi]"],
            &["php-fpm:", "pool", "?"],
        ] {
            let expected = words.join(" ");
            assert_eq!(line(words), expected);
        }
        // a title is one word
        assert_eq!(
            line(&["nginx: master process /usr/sbin/nginx -g daemon on;"]),
            "nginx: master process /usr/sbin/nginx ? ? ?"
        );
        assert_eq!(
            line(&["postgres: alice shop 10.0.0.1(4242) idle in transaction"]),
            "postgres: ? ? ? idle in transaction"
        );
        assert_eq!(line(&["redis-server 127.0.0.1:6379"]), "redis-server 127.0.0.1:6379");
    }

    #[test]
    fn values_are_left_out() {
        for (words, expected) in [
            (&["redis-server", "--requirepass", "hunter"][..], "redis-server --requirepass ?"),
            (&["redis-cli", "-a", "123456", "AUTH", "hunter"], "redis-cli -a ? ? ?"),
            (&["mysql", "-uroot", "-phunter", "shop"], "mysql -u? -p? shop"),
            (&["curl", "-u", "ann:12345", "-H", "Authorization: Bearer abc"], "curl -u ? -H ?"),
            (&["psql", "postgres://ann:pw@db:5432/shop"], "psql postgres://?@db:5432/?"),
            (&["psql", "postgres://ann:p/w@db/shop"], "psql postgres://?"),
            (&["curl", "https://s3.example/b/k?X-Amz-Signature=abc"], "curl https://s3.example/?"),
            (&["psql", "-c", "SELECT * FROM users WHERE name = 'ann'"], "psql -c ?"),
            (&["env", "PGPASSWORD=1234", "PORT=8000", "MODE=blue"], "env PGPASSWORD=? PORT=8000 MODE=?"),
            (
                &["app", "--token=7", "--port=80", "--config=/etc/app.yml"],
                "app --token=? --port=80 --config=/etc/app.yml",
            ),
            (&["sh", "-c", "curl -u ann:pw http://x"], "sh -c ?"),
            (&["docker", "run", "-e", "PASSWORD=x"], "docker run -e ?"),
            (&["app", "--phone", "5551234"], "app --phone ?"),
        ] {
            assert_eq!(line(words), expected);
        }
        assert_eq!(program_of(b"python3"), b"python3");
        assert_eq!(program_of(b"postgres: ann sh"), b"postgres:");
    }

    /// Secrets as programs make them: no short number, no word of small letters alone, which a subcommand is, and none that looks
    /// like an option.
    fn secret() -> impl Strategy<Value = String> {
        let is_one = |s: &String| {
            let has = |of: fn(&u8) -> bool| s.bytes().any(|b| of(&b));
            let kinds = [has(u8::is_ascii_digit), has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase)];
            kinds.into_iter().filter(|k| *k).count() >= 2 && !s.starts_with('-')
        };
        prop_oneof!["[A-Za-z0-9+/_=-]{8,40}", "[A-Za-z0-9]{8,24}", "[A-Za-z]{8,24}", "[a-z0-9]{8,24}", "[a-f0-9]{32}"]
            .prop_filter("a generated secret", is_one)
    }

    proptest! {
        #[test]
        fn no_secret_in_a_named_position_stays(s in secret(), program in "(/usr/bin/)?[a-z]{2,8}") {
            let f = |before: &str, after: &str| format!("{before}{s}{after}");
            let places: Vec<Vec<String>> = vec![
                vec!["--requirepass".into(), s.clone()],
                vec![f("--requirepass=", "")],
                vec!["--password".into(), s.clone()],
                vec!["--anything".into(), s.clone()],
                vec![f("--anything=", "")],
                vec![f("--anything:", "")],
                vec!["-a".into(), s.clone()],
                vec!["-p".into(), s.clone()],
                vec!["-u".into(), f("ann:", "")],
                vec!["-U".into(), f("", ":x")],
                vec![f("-p", "")],
                vec![f("-a", "")],
                vec![f("-u", "")],
                vec!["Bearer".into(), s.clone()],
                vec![f("Authorization: Bearer ", "")],
                vec!["-H".into(), f("Cookie: sid=", "")],
                vec![f("postgres://ann:", "@db/shop")],
                vec![f("redis://:", "@127.0.0.1:6379/0")],
                vec!["--url".into(), f("https://ann:", "@host/path")],
                vec![f("https://host/path?sig=", "&x=1")],
                vec![f("--url=https://host/path?token=", "")],
                vec![f("jdbc:postgresql://db/shop?password=", "")],
                vec![f("https://hooks.example/", "/x")],
                vec!["-c".into(), f("ALTER USER ann PASSWORD '", "'")],
                vec![f("SECRET=", "")],
                vec![f("KEY=", "")],
                vec!["-e".into(), f("KEY=", "")],
                vec![f("-Dspring.password=", "")],
                vec![f("-Danything=", "")],
                vec!["run".into(), "now".into(), s.clone()],
            ];
            for place in &places {
                let words: Vec<&str> = std::iter::once(program.as_str()).chain(place.iter().map(String::as_str)).collect();
                let told = line(&words);
                prop_assert!(!told.contains(&s), "{:?}: {}", words, told);
            }
        }

        #[test]
        fn any_bytes_are_read(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            let told = masked(&raw);
            prop_assert!(told.iter().all(|b| b.is_ascii_graphic() || *b == b' '), "{:?}", told);
        }
    }
}
