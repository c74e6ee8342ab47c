//! What people call a program that an interpreter runs: `gunicorn shop.wsgi`, where the kernel says `python3`.

/// Programs that run others, by the letters that their names begin with.
const INTERPRETERS: [&str; 10] = ["python", "pypy", "ruby", "node", "nodejs", "perl", "php", "java", "bun", "deno"];
/// Options of interpreters that are followed by a value.
const WITH_VALUE: [&str; 8] = ["-cp", "-classpath", "--class-path", "-W", "-X", "-r", "--require", "-I"];

/// The word that asks an interpreter to run the script after it: `deno run shop.ts`, `bun run shop.ts`.
const RUN: &str = "run";

/// What stands in a command line for a word that is not recorded.
pub(crate) const MASKED: &str = "?";

/// The program's own name and what it serves, of a command line whose words are parted by spaces; `None` where that says
/// nothing more than the name of the program that was started.
pub fn in_words(command_line: &str) -> Option<String> {
    let mut words = command_line.split_whitespace();
    let first = words.next()?;
    let started = base(first);
    // programs that say what they do in place of their command line: `gunicorn: worker [shop.wsgi]`
    if let Some((_, rest)) = command_line.split_once('[')
        && let Some((inside, _)) = rest.split_once(']')
        && is_application(inside)
    {
        return Some(format!("{} {inside}", started.trim_end_matches(':')));
    }
    if !is_interpreter(started) {
        return None;
    }
    let script = script(started, &mut words)?;
    let serves = words.find(|w| is_application(w));
    Some(match serves {
        Some(application) => format!("{script} {application}"),
        None if script.contains('.') => format!("{started} {script}"),
        None => script,
    })
}

/// The script, module, class or archive that an interpreter was given.
fn script<'w>(interpreter: &str, words: &mut impl Iterator<Item = &'w str>) -> Option<String> {
    while let Some(word) = words.next() {
        match word {
            "-m" | "-jar" | "--module" => return words.next().filter(|w| *w != MASKED).map(|w| base(w).to_owned()),
            // what follows is a program's text
            "-c" | "-e" | "-" | "--eval" => return None,
            _ if WITH_VALUE.contains(&word) => drop(words.next()),
            _ if word.starts_with('-') => {}
            RUN if matches!(interpreter, "bun" | "deno") => {}
            // a name that was masked when it was recorded
            MASKED => return None,
            // a class is called by its last part
            _ if interpreter == "java" => return word.rsplit(['.', '/']).next().map(str::to_owned),
            _ => return Some(base(word).to_owned()),
        }
    }
    None
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_interpreter(name: &str) -> bool {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    INTERPRETERS.contains(&bare)
}

/// Whether a word names a module or an application: `shop.wsgi`, `shop.asgi:app`, `main:app`; not an address, a number or a file.
fn is_application(word: &str) -> bool {
    let is_name = |part: &str| {
        part.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let (module, object) = word.split_once(':').map_or((word, None), |(m, o)| (m, Some(o)));
    let is_module = module.split('.').all(is_name);
    is_module
        && object.map_or(module.contains('.'), |o| is_name(o.trim_end_matches("()")))
        && !matches!(
            module.rsplit('.').next(),
            Some("py" | "js" | "rb" | "conf" | "ini" | "toml" | "sock" | "log" | "json")
        )
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn a_program_has_the_name_that_people_use() {
        for (line, name) in [
            ("/usr/bin/python3 /usr/bin/gunicorn -w 4 -b 127.0.0.1:8000 shop.wsgi", Some("gunicorn shop.wsgi")),
            ("python3 -m uvicorn main:app --port 8000", Some("uvicorn main:app")),
            ("/opt/venv/bin/python3.11 -u manage.py runserver 8000", Some("python3.11 manage.py")),
            ("python3 /srv/shop/app.py 8000 127.0.0.1", Some("python3 app.py")),
            ("gunicorn: worker [shop.wsgi]", Some("gunicorn shop.wsgi")),
            ("java -Xmx1g -cp a.jar:b.jar com.shop.Main 8080", Some("Main")),
            ("java -jar /srv/shop.jar", Some("java shop.jar")),
            ("node --require ./hook.js server.js", Some("node server.js")),
            ("deno run --allow-all /srv/shop.ts", Some("deno shop.ts")),
            ("bun run shop.ts", Some("bun shop.ts")),
            ("ruby /usr/bin/puma -p 3000", Some("puma")),
            ("python3 -c ?", None),
            ("python3 ? 8000", None),
            ("java -Xmx200m -cp ? ?", None),
            ("python3 -m ? 8000", None),
            ("nginx: master process /usr/sbin/nginx -c /etc/nginx.conf", None),
            ("/usr/sbin/nginx", None),
            ("redis-server *:6379 [cluster]", None),
            ("", None),
        ] {
            assert_eq!(in_words(line).as_deref(), name, "{line}");
        }
    }
}
