# SPDX-License-Identifier: Apache-2.0
"""Small data sets that tests make for themselves."""

import io
import tarfile

from PIL import Image


def jpeg(seed=0, size=(48, 40)):
    """The bytes of a small picture that differs by `seed`."""
    picture = Image.radial_gradient("L").resize(size).rotate(37 * seed)
    colour = Image.new("L", size, 40 * seed % 256)
    buffer = io.BytesIO()
    Image.merge("RGB", (picture, colour, picture)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def make_folder(root, classes=("cat", "dog"), count=6):
    """An image folder: `count` pictures a class, named 000.jpg and on."""
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(count):
            (root / name / f"{i:03}.jpg").write_bytes(jpeg(number * count + i))
    return root


def make_shard(path, members):
    """A tar file with `members`: (name, bytes) in order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as shard:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            shard.addfile(info, io.BytesIO(content))
    return path


def make_shards(root, shard_count=4, count=25):
    """Shards of `count` samples KEY.cls + KEY.jpg each; the label is the key modulo 10."""
    picture = jpeg()
    for shard in range(shard_count):
        keys = range(shard * count, (shard + 1) * count)
        members = [
            member
            for key in keys
            for member in ((f"{key:06}.cls", b"%d" % (key % 10)), (f"{key:06}.jpg", picture))
        ]
        make_shard(root / f"s-{shard:03}.tar", members)
    return root


def pack_shards(folder, root, per_shard=9):
    """Shards of an image folder's pictures in its order: class/NAME.jpg with class/NAME.cls."""
    classes = sorted(p.name for p in folder.iterdir())
    pictures = [p for name in classes for p in sorted((folder / name).iterdir())]
    for begin in range(0, len(pictures), per_shard):
        members = []
        for picture in pictures[begin : begin + per_shard]:
            key = f"{picture.parent.name}/{picture.stem}"
            label = classes.index(picture.parent.name)
            members += [(f"{key}.jpg", picture.read_bytes()), (f"{key}.cls", b"%d" % label)]
        make_shard(root / f"packed-{begin // per_shard:03}.tar", members)
    return root
