use crate::conversation::*;
use crate::dissect::*;
use crate::heard::*;
use crate::marker::*;
use plimsoll_model::Nanos;
use std::collections::BTreeMap;
#[test]
fn truth_tmp() {
    for name in std::env::var("CONVS").unwrap_or_default().split_whitespace() {
        let data = std::fs::read(format!("/tmp/dta/{name}.conv")).unwrap();
        let pat = std::env::var("PAT").unwrap_or("plm1:{device}:{seq}".into());
        let search = Search::new(if pat.is_empty() {
            vec![]
        } else {
            vec![Form::Pattern(Pattern::parse(&pat).unwrap())]
        });
        let mut heard = Heard::default();
        let mut convs: BTreeMap<u32, Conversation> = BTreeMap::new();
        let mut o = 0;
        while o < data.len() {
            let b = &data[o..];
            let u16_ = |i: usize| u16::from_le_bytes([b[i], b[i + 1]]);
            let id = u32::from_le_bytes(b[..4].try_into().unwrap());
            let tcp = b[4] == 0;
            let (cp, sp) = (u16_(5), u16_(7));
            let dir = b[9] as usize;
            let t = i64::from_le_bytes(b[10..18].try_into().unwrap());
            let n = u32::from_le_bytes(b[18..22].try_into().unwrap()) as usize;
            let known = std::env::var("MID").is_err();
            let c = convs.entry(id).or_insert_with(|| {
                Conversation::new(
                    ConversationId(id),
                    if tcp { Carrier::Stream } else { Carrier::Datagrams },
                    [cp, sp],
                    (known && tcp).then_some(0),
                )
            });
            c.data(dir, Nanos(t), &b[22..22 + n], &mut Ears { search: &search, heard: &mut heard });
            o += 22 + n;
        }
        let mut protos = BTreeMap::new();
        for c in convs.values_mut() {
            let mut ears = Ears { search: &search, heard: &mut heard };
            for d in [0, 1] {
                c.finished(d, Nanos(i64::MAX / 2), &mut ears);
            }
            c.end(&mut ears);
            *protos.entry(format!("{:?} client {}", c.protocol(), c.client())).or_insert(0) += 1;
        }
        println!("== {name} {protos:?} skipped {} breaches {}", heard.skipped, heard.breaches.len());
        let mut k: BTreeMap<String, u32> = BTreeMap::new();
        for e in &heard.exchanges {
            *k.entry(format!("E {:?} {} {:?} {}", e.requester, e.verb, e.outcome, e.status)).or_default() +=
                1;
        }
        for e in &heard.notices {
            *k.entry(format!(
                "N {:?} {} {}",
                e.from,
                e.verb,
                if e.unexpected { "unexpected" } else { "" }
            ))
            .or_default() += 1;
        }
        for e in &heard.breaches {
            *k.entry(format!("B {:?} {}", e.from, e.reason)).or_default() += 1;
        }
        *k.entry("S".into()).or_default() += heard.sightings.len() as u32;
        for (k, v) in k {
            println!("  {v:5} {k}");
        }
    }
}
