"""The manifest: what is written can be read back, and an edited one is rejected."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.abi.manifest import (
    ArrayArgument,
    LaunchEntry,
    Manifest,
    ParamArgument,
    ScalarArgument,
    TensorMapEntry,
    Texture,
    Upload,
    Workspace,
    is_untouched,
)
from tests.drawn import examples

texts = st.text(max_size=8)
numbers = st.integers(0, 2**40)
sizes = st.one_of(numbers, st.sampled_from(["N", "(M + 15) // 16", "é"]))
lists = st.lists(sizes, max_size=3).map(tuple)
arguments = st.one_of(
    st.builds(ArrayArgument, texts, texts, texts, lists, lists, sizes, numbers, texts, texts),
    st.builds(ScalarArgument, texts, texts),
    st.builds(ParamArgument, texts, texts, numbers, numbers, numbers),
)
three = st.tuples(sizes, sizes, sizes)
launches = st.builds(
    LaunchEntry,
    texts,
    three,
    st.tuples(numbers, numbers, numbers),
    numbers,
    numbers,
    st.lists(texts, max_size=3).map(tuple),
    texts,
    st.integers(1, 8),
    st.lists(texts, max_size=3).map(tuple),
)
tiled_maps = st.builds(TensorMapEntry, texts, texts, texts, lists, lists, lists, numbers, st.booleans())
tensor_maps = tiled_maps | st.builds(
    TensorMapEntry, texts, texts, texts, lists, lists, lists, numbers, st.booleans(), lists, lists, lists
)


def some(strategy):
    return st.lists(strategy, max_size=3).map(tuple)


manifests = st.builds(
    Manifest,
    kernel=texts,
    version=texts,
    spec_file=texts,
    spec_hash=texts,
    target=texts,
    params=st.dictionaries(texts, st.integers(-(2**63), 2**63), max_size=3),
    arguments=some(arguments),
    workspace=some(st.builds(Workspace, texts, texts, sizes, lists, st.booleans(), st.booleans())),
    uploads=some(st.builds(Upload, texts, texts, numbers)),
    launches=some(launches),
    require=some(texts),
    source_hash=texts,
    header_hash=texts,
    typed_header_hash=texts,
    input_hash=texts,
    requires=st.sampled_from([(), ("texture",), ("texture", "texture_2d", "texture_linear"), ("tensor_maps",)]),
    textures=some(st.builds(Texture, texts) | st.builds(Texture, texts, numbers, numbers, texts, texts, texts)),
    tensor_maps=some(tensor_maps),
)


@pytest.mark.slow
@given(manifests)
def test_a_manifest_reads_back_as_itself(manifest):
    assert Manifest.from_json(manifest.to_json()) == manifest


@settings(max_examples=examples(40))
@given(manifests)
def test_what_was_written_is_untouched_and_any_change_shows(manifest):
    text = manifest.to_json()
    assert is_untouched(text)
    assert not is_untouched(text + " ")
    assert not is_untouched(text.replace('"cugen": 1', '"cugen":  1'))


@given(manifests, texts)
def test_a_value_changed_by_hand_shows(manifest, value):
    content = json.loads(manifest.to_json())
    content["kernel"] = value
    assert is_untouched(json.dumps(content, indent=2) + "\n") == (value == manifest.kernel)


@pytest.fixture
def manifest() -> Manifest:
    return Manifest(
        kernel="scale",
        version="1",
        spec_file="scale.yaml",
        spec_hash="0",
        target="sm_90",
        params={"N": 8},
        arguments=(
            ArrayArgument("A", "input", "float32", ("M", 8), (8, 1), "M * 8", 4),
            ScalarArgument("a", "float32"),
            ParamArgument("M", "int32", 0, 100, 4),
        ),
        workspace=(Workspace("t", "float32", 8, (8,)),),
        uploads=(Upload("w", "W", 4),),
        launches=(LaunchEntry("scale", ("(M + 15) // 16", 1, 1), (16, 1, 1), 0, 0, ("A", "a", "M"), "A[i] = a"),),
    )


def test_the_keys_are_those_that_programs_read(manifest):
    content = json.loads(manifest.to_json())
    assert list(content)[:7] == ["cugen", "kernel", "version", "spec_file", "spec_hash", "target", "params"]
    assert list(content)[-2:] == ["input_hash", "manifest_hash"]
    assert content["arguments"][0] == {
        "kind": "array",
        "name": "A",
        "role": "input",
        "dtype": "float32",
        "shape": ["M", 8],
        "strides": [8, 1],
        "elements": "M * 8",
        "alignment": 4,
        "boundary": "",
    }
    assert [argument["kind"] for argument in content["arguments"]] == ["array", "scalar", "param"]
    assert content["launches"][0]["grid"] == ["(M + 15) // 16", 1, 1]


def test_the_hash_is_that_of_everything_before_it(manifest):
    content = json.loads(manifest.to_json())
    claimed = content.pop("manifest_hash")
    assert hashlib.sha256(json.dumps(content).encode()).hexdigest() == claimed


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"manifest_hash": 1}', "{"])
def test_other_texts_are_no_manifests(text):
    assert not is_untouched(text)
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        Manifest.from_json(text)


def test_another_format_is_refused(manifest):
    with pytest.raises(ValueError, match="not a cugen manifest of format 1"):
        Manifest.from_json(manifest.to_json().replace('"cugen": 1', '"cugen": 2'))


def test_an_unknown_key_is_refused(manifest):
    with pytest.raises(TypeError):
        Manifest.from_json(manifest.to_json().replace('"version"', '"vresion"'))


def test_a_manifest_that_requires_what_is_not_known_is_refused(manifest):
    text = json.dumps({**json.loads(manifest.to_json()), "requires": ["texture", "descriptors"]})
    with pytest.raises(ValueError, match="the manifest requires descriptors: a later version of cugen made it"):
        Manifest.from_json(text)


def test_a_player_without_im2col_maps_refuses_them(manifest, monkeypatch):
    entry = TensorMapEntry("x_map", "x", "bfloat16", (8, 4, 2), (16, 64), (8, 4, 1), 0, False, (-1,), (-1,), (1,))
    features = ("tensor_maps", "tensor_maps_im2col")
    text = replace(manifest, requires=features, tensor_maps=(entry,)).to_json()
    assert Manifest.from_json(text).tensor_maps == (entry,)
    monkeypatch.setattr("cugen.abi.manifest.FEATURES", ("texture", "texture_2d", "texture_linear", "tensor_maps"))
    with pytest.raises(ValueError, match="the manifest requires tensor_maps_im2col: a later version of cugen made it"):
        Manifest.from_json(text)


def test_what_a_kernel_does_not_require_is_not_in_its_manifest(manifest):
    content = json.loads(manifest.to_json())
    assert not {"requires", "textures", "tensor_maps"} & content.keys()
    assert "tensor_maps" not in content["launches"][0]


def test_a_tensor_map_has_the_keys_that_programs_read(manifest):
    entry = TensorMapEntry("A_map", "A", "bfloat16", ("M", 8), (16,), (8, 4), 128)
    launch = replace(manifest.launches[0], tensor_maps=("A_map",))
    mapped = replace(manifest, requires=("tensor_maps",), tensor_maps=(entry,), launches=(launch,))
    content = json.loads(mapped.to_json())
    assert content["tensor_maps"] == [
        {
            "name": "A_map",
            "argument": "A",
            "dtype": "bfloat16",
            "sizes": ["M", 8],
            "strides": [16],
            "box": [8, 4],
            "swizzle": 128,
        }
    ]
    assert content["launches"][0]["tensor_maps"] == ["A_map"]
    pixels = replace(mapped, tensor_maps=(replace(entry, lower=(-1,), upper=(-2,), steps=(2,)),))
    (written,) = json.loads(pixels.to_json())["tensor_maps"]
    assert (written["lower"], written["upper"], written["steps"]) == ([-1], [-2], [2])
    rounded = replace(mapped, tensor_maps=(replace(entry, tf32=True),))
    assert json.loads(rounded.to_json())["tensor_maps"][0]["tf32"] is True
