#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Helpers for this case set: read it, lay out the recipes, compare results.

  python3 cases.py list [KIND]              ids and outcomes
  python3 cases.py materialize ID DIR       make the tree or the sparse file of a case under DIR
"""
import json
import os
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def load(kind=None):
    with open(os.path.join(HERE, "expectations.json"), encoding="utf-8") as f:
        cs = json.load(f)["cases"]
    return [c for c in cs if kind in (None, c["kind"])]


def case(cid):
    return next(c for c in load() if c["id"] == cid)


def _bytes(e):
    return bytes.fromhex(e["path_hex"]) if "path_hex" in e else os.fsencode(e["path"])


def _into(root, rel):
    """Walk down with chdir, so that paths longer than PATH_MAX can be made. Returns the last name."""
    os.chdir(root)
    *dirs, last = rel.split(b"/")
    for d in dirs:
        if not os.path.isdir(d):
            os.mkdir(d)
        os.chdir(d)
    return last


def materialize(c, dest):
    """Lays out c['recipe'] under dest (an empty folder); returns the path to hand to the loader."""
    dest, back = os.path.abspath(dest), os.getcwd()
    os.makedirs(dest, exist_ok=True)
    r = c["recipe"]
    if r["type"] == "sparse_file":
        p = os.path.join(dest, r["name"])
        with open(p, "wb") as f:
            f.truncate(r["size"])
            for x in r["pieces"]:
                f.seek(x["offset"])
                with open(os.path.join(HERE, x["from"]), "rb") as s:
                    f.write(s.read())
        return p
    try:
        for e in r["entries"]:
            t = e["type"]
            if t == "dir":
                os.makedirs(os.path.join(dest, e["path"]), exist_ok=True)
                continue
            if t == "chmod":
                os.chmod(os.path.join(dest, e["path"]), int(e["mode"], 8))
                continue
            if t == "hardlink":
                os.makedirs(os.path.dirname(os.path.join(dest, e["path"])), exist_ok=True)
                os.link(os.path.join(dest, e["to"]), os.path.join(dest, e["path"]))
                continue
            last = _into(dest, _bytes(e))
            if t == "file":
                with open(os.path.join(HERE, e["from"]), "rb") as s, open(last, "wb") as f:
                    f.write(s.read())
                if "mode" in e:
                    os.chmod(last, int(e["mode"], 8))
            elif t == "symlink":
                os.symlink(e["to"], last)
            elif t == "fifo":
                os.mkfifo(last)
            elif t == "socket":
                s = socket.socket(socket.AF_UNIX)
                s.bind(os.fsdecode(last))
                s.close()
            else:
                raise ValueError(t)
    finally:
        os.chdir(back)
    return dest


def reference_pixels(p):
    """The RGB array (height, width, 3) of a 'pixels' entry, or None when only its hash is kept."""
    import numpy as np
    if "constant_rgb" in p:
        return np.broadcast_to(np.array(p["constant_rgb"], np.uint8), (p["height"], p["width"], 3))
    if "png" not in p:
        return None
    from PIL import Image
    return np.asarray(Image.open(os.path.join(HERE, p["png"])).convert("RGB"))


def pixels_match(got, exp, other_chroma=False):
    """got: uint8 RGB array. exp: the case's 'expect'. other_chroma: the decoder repeats chroma (GPU decoders)."""
    import numpy as np
    for ref, tol in [(exp["pixels"], exp.get("tolerance", {"max_abs": 0, "mean_abs": 0}))] + [(a["pixels"], a["tolerance"]) for a in exp.get("alternatives", [])]:
        r = reference_pixels(ref)
        if r is None:
            import hashlib
            if hashlib.sha256(np.ascontiguousarray(got).tobytes()).hexdigest() == ref["sha256_rgb"]:
                return True
            continue
        if got.shape != r.shape:
            continue
        d = np.abs(got.astype(int) - r)
        if other_chroma and "tolerance_other_chroma" in exp:
            if d.mean() <= exp["tolerance_other_chroma"]["mean_abs"]:
                return True
        elif d.max() <= tol["max_abs"] and d.mean() <= tol["mean_abs"]:
            return True
    return False


def message_ok(msg, exp, **names):
    """names: file=..., key=..., url=... as the loader should print them (a base name is enough)."""
    need = [names[m[1:-1]] if m.startswith("{") else m for m in exp.get("error_must_contain", [])]
    one = exp.get("error_should_contain_one_of", [])
    return all(n in msg for n in need) and (not one or any(o.lower() in msg.lower() for o in one))


if __name__ == "__main__":
    if sys.argv[1:2] == ["list"]:
        for c in load(sys.argv[2] if len(sys.argv) > 2 else None):
            print(c["kind"], c["sub"], c["id"], c["expect"]["outcome"], sep="\t")
    elif sys.argv[1:2] == ["materialize"]:
        print(materialize(case(sys.argv[2]), sys.argv[3]))
    else:
        print(__doc__)
