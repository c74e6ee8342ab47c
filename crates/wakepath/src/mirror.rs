//! `wakepath mirror`.

use crate::cli::{CleanArgs, MirrorArgs, MirrorCommand, Place, Ports, SelectionArgs, ShowMirrorsArgs, SwitchArgs};
use crate::output::{self, tell};
use anyhow::Result;
use wakepath_capture::mirror::{self, Command, Found, MirrorId, Request, Selection, Switch, Take, To};
use wakepath_present::json;
use wakepath_present::mirror::{MirrorsView, PartView, SCHEMA};
use wakepath_present::text::Style;

/// Sets up, shows or removes.
pub fn run(args: &MirrorArgs) -> Result<i32> {
    let on_bridge = |switch: &SwitchArgs, take, to, cut| {
        let request = Request::Bridge { bridge: switch.bridge.clone(), take, to, cut };
        set_up(&place(&switch.place), &request, switch.dry_run)
    };
    match &args.what {
        MirrorCommand::Port(a) => on_bridge(&a.switch, ports(&a.ports), To::Port(a.to.clone()), None),
        MirrorCommand::Truncated(a) => on_bridge(&a.switch, ports(&a.ports), To::Port(a.to.clone()), Some(a.length)),
        MirrorCommand::Selective(a) => {
            on_bridge(&a.switch, Take::Flows(selection(&a.selection)), To::Port(a.to.clone()), a.truncate)
        }
        MirrorCommand::Tunnel(a) => {
            let take = match a.from.as_slice() {
                [] => Take::Flows(selection(&a.selection)),
                from => Take::Ports(from.to_vec(), a.direction.into()),
            };
            on_bridge(&a.switch, take, To::Tunnel { kind: a.via.into(), remote: a.remote, key: a.key }, a.truncate)
        }
        MirrorCommand::Tc(a) => {
            let s = selection(&a.selection);
            let all = a.selection.address.is_empty() && a.selection.port.is_empty() && a.selection.flags.is_none();
            let request = Request::Interface {
                interface: a.from.clone(),
                to: a.to.clone(),
                direction: a.direction.into(),
                selection: (!all).then_some(s),
            };
            set_up(&Switch::default(), &request, a.dry_run)
        }
        MirrorCommand::Show(a) => show(a),
        MirrorCommand::Clean(a) => clean(a),
    }
}

fn place(place: &Place) -> Switch {
    Switch { db: place.db.clone(), run: place.ovs_run.clone() }
}

fn ports(ports: &Ports) -> Take {
    Take::Ports(ports.from.clone(), ports.direction.into())
}

fn selection(args: &SelectionArgs) -> Selection {
    Selection {
        addresses: args.address.clone(),
        ports: args.port.clone(),
        flags: args.flags.map(Into::into).unwrap_or_default(),
    }
}

/// Sets a mirror up; its id is the answer.
fn set_up(switch: &Switch, request: &Request, dry_run: bool) -> Result<i32> {
    let id = MirrorId::random()?;
    if dry_run {
        let plan = mirror::plan(switch, id, request)?;
        let undo = lines(&plan.undo);
        output::answer(format!("{}# undone by:\n{undo}", lines(&plan.commands)).as_bytes())?;
        return Ok(output::ANSWERED);
    }
    let plan = mirror::set_up(switch, id, request)?;
    for notice in &plan.notices {
        tell!("wakepath: {notice}");
    }
    tell!("wakepath: the mirror stays until `wakepath mirror clean {id}`");
    output::answer(format!("{id}\n").as_bytes())?;
    Ok(output::ANSWERED)
}

fn lines(commands: &[Command]) -> String {
    commands.iter().map(|c| format!("{c}\n")).collect()
}

fn show(args: &ShowMirrorsArgs) -> Result<i32> {
    let found = mirror::show(&place(&args.place))?;
    tell_notices(&found);
    let view = view(&found);
    let text = if args.json { json::document(SCHEMA, &[], &view)? } else { view.render(Style::for_stdout()) };
    output::answer(text.as_bytes())?;
    Ok(output::ANSWERED)
}

fn clean(args: &CleanArgs) -> Result<i32> {
    let switch = place(&args.place);
    if args.dry_run {
        output::answer(lines(&mirror::plan_clean(&switch, &args.ids)?).as_bytes())?;
        return Ok(output::ANSWERED);
    }
    let removed = mirror::clean(&switch, &args.ids)?;
    tell_notices(&removed);
    let mut ids: Vec<MirrorId> = removed.parts.iter().map(|p| p.id).collect();
    ids.dedup();
    output::answer(ids.iter().map(|id| format!("{id}\n")).collect::<String>().as_bytes())?;
    if ids.is_empty() {
        tell!("wakepath: nothing to remove");
    }
    Ok(output::ANSWERED)
}

fn tell_notices(found: &Found) {
    for notice in &found.notices {
        tell!("wakepath: {notice}");
    }
}

fn view(found: &Found) -> MirrorsView {
    let part = |p: &mirror::Part| PartView {
        kind: p.kind,
        on: p.on.clone(),
        text: p.text.clone(),
        packets: p.packets,
        bytes: p.bytes,
    };
    MirrorsView::new(found.parts.iter().map(|p| (p.id.to_string(), part(p))))
}
