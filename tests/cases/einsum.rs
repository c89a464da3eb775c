//! Einsum: letters and their case do not matter.

use crate::kit::*;

fn einsum(equation: &str, a: &[usize], b: Option<&[usize]>) -> Net {
    let mut net = Net::new(13);
    net.input("a", a);
    let mut inputs = vec!["a"];
    if let Some(b) = b {
        net.input("b", b);
        inputs.push("b");
    }
    net.op("Einsum", &inputs, &["y"], &[("equation", text(equation))]).outputs(&["y"]);
    net
}

/// Compiles, and compares with ONNX Runtime; the ops that it became.
fn check(equation: &str, a: &[usize], b: Option<&[usize]>) -> Option<Vec<String>> {
    let run = einsum(equation, a, b).compile(&[])?;
    let mut feeds = vec![feed("a", a, &noise(a.iter().product()))];
    if let Some(b) = b {
        feeds.push(feed("b", b, &noise(b.iter().product::<usize>() + 5)[5..]));
    }
    run.agrees(&feeds, 4e-3);
    Some(run.qnn_ops("y"))
}

#[test]
fn products_are_matmuls_whatever_the_letters() {
    for same in [
        ["bhwc,hkc->bhwk", "abcd,bed->abce", "BHWC,HKC->BHWK", "zYxw,Ykw->zYxk"],
        ["BHQD,BHKD->BHQK", "bhqd,bhkd->bhqk", "aBcd,aBKd->aBcK", " b h q d , b h k d -> b h q k "],
    ] {
        let (a, b): (&[usize], &[usize]) =
            if same[0].starts_with('b') { (&[1, 4, 5, 8], &[4, 6, 8]) } else { (&[1, 2, 3, 4], &[1, 2, 5, 4]) };
        let mut first = None;
        for equation in same {
            let Some(ops) = check(equation, a, Some(b)) else { return };
            assert!(ops.iter().any(|o| o == "MatMul"), "{equation}: {ops:?}");
            assert_eq!(*first.get_or_insert_with(|| ops.clone()), ops, "{equation}");
        }
    }
}

#[test]
fn upper_and_lower_case_are_two_letters() {
    check("aA,Ab->ab", &[3, 4], Some(&[4, 5]));
}

#[test]
fn a_diagonal_is_exact_or_refused_with_its_equation() {
    for (equation, shape) in [("ii->i", &[4, 4][..]), ("AA->A", &[4, 4]), ("bii->bi", &[2, 3, 3]), ("ii", &[4, 4])] {
        let Some(run) = einsum(equation, shape, None).compile(&[]) else { return };
        assert_eq!(run.code, 0, "{}", run.stderr);
        if run.backend("y") == "host" {
            assert!(run.reasons("y").contains(equation), "{}", run.reasons("y"));
        } else {
            run.agrees(&[feed("a", shape, &noise(shape.iter().product()))], 2e-3);
        }
    }
}

#[test]
fn ellipsis_sums_and_implicit_outputs() {
    check("...ij,...jk->...ik", &[2, 3, 4], Some(&[2, 4, 5]));
    check("...ij,jk->...ik", &[2, 2, 3, 4], Some(&[4, 5]));
    check("ij,jk", &[3, 4], Some(&[4, 5]));
    check("ba,bc", &[3, 4], Some(&[3, 5]));
    check("i,j->ij", &[3], Some(&[4]));
    check("ij->", &[3, 4], None);
    check("ij->ji", &[3, 4], None);
    check("bij->bj", &[2, 3, 4], None);
    check("bsd,bsd->bs", &[2, 3, 4], Some(&[2, 3, 4]));
}

#[test]
fn equations_that_do_not_fit_are_the_users_error() {
    for (equation, a, b) in [
        ("ij,jk->ik", &[3, 4][..], Some(&[5, 6][..])),
        ("ijk->i", &[3, 4], None),
        ("ij->ik", &[3, 4], None),
        ("i1->i", &[3, 4], None),
        ("ij,jk->ik", &[3, 4], None),
    ] {
        let Some(run) = einsum(equation, a, b).compile(&[]) else { return };
        assert!(run.refused().contains(equation), "{}", run.stderr);
    }
}
