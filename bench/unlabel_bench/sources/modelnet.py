"""ModelNet10 and ModelNet40: objects seen from all around, from the user's folder."""

from __future__ import annotations

from functools import partial

from unlabel.data.dataset import SOURCES, folder_source
from unlabel_bench.published import Published
from unlabel_bench.rendering import load_meshes

TEN = (
    *("bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table"),
    "toilet",
)
FORTY = (
    *("airplane", "bathtub", "bed", "bench", "bookshelf", "bottle", "bowl", "car", "chair", "cone"),
    *("cup", "curtain", "desk", "door", "dresser", "flower_pot", "glass_box", "guitar"),
    *("keyboard", "lamp", "laptop", "mantel", "monitor", "night_stand", "person", "piano", "plant"),
    *("radio", "range_hood", "sink", "sofa", "stairs", "stool", "table", "tent", "toilet"),
    *("tv_stand", "vase", "wardrobe", "xbox"),
)

for official, labels, about in (
    ("ModelNet10", TEN, "furniture as meshes, 10 labels, 3991 + 908 objects"),
    ("ModelNet40", FORTY, "things as meshes, 40 labels, 9843 + 2468 objects"),
):
    published = Published(
        official.lower(),
        f"download {official}.zip from the ModelNet page of Princeton University, unpack it, and "
        f"pass the folder {official} with `--folder`",
        inside=official,
        labels=labels,
    )
    draw = partial(load_meshes, published=published)
    SOURCES.add(published.name, folder_source(about, draw))
