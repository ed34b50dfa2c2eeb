"""The timeline of a pipeline keeps the order that makes it correct, and has the stages of the proof."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from cugen.report.timeline import COPY, MATH, RELEASE, WAIT

PIPELINES = {
    "gemm_f32.yaml": 4,
    "gemm_f16.yaml": 2,
    "gemm_tensor_bf16.yaml": 3,
    "conv_channels_last.yaml": 4,
    "gemm_wgmma_f16.yaml": 2,
    "gemm_wgmma_multicast.yaml": 3,
    "gemm_wgmma_no_producer.yaml": 3,
    "gemm_wgmma_stream_k.yaml": 4,
}
ONE_STAGE = ("matmul_tiled.yaml", "matmul_padded.yaml", "n_body.yaml", "attention_causal.yaml")


def timelines(pages):
    return [launch.timeline for page in pages for launch in page.launches if launch.timeline is not None]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("file", [*PIPELINES, *ONE_STAGE])
def test_a_tile_is_read_after_its_copy_is_complete_and_before_the_next_one(file, gallery_pages):
    made = timelines(gallery_pages(file))
    assert made
    for timeline in made:
        for flight in timeline.flights:
            if flight.reads:
                assert flight.issued < flight.complete < min(flight.reads)
        for stage in range(timeline.stages):
            of_stage = [flight for flight in timeline.flights if flight.stage == stage]
            for before, after in pairwise(of_stage):
                assert max(before.reads) < after.issued
        order = [flight.k_tile for flight in sorted(timeline.flights, key=lambda flight: flight.issued)]
        assert order == list(range(len(order)))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("file", PIPELINES)
def test_the_stages_are_those_of_the_proof(file, gallery_pages):
    for page in gallery_pages(file):
        for launch in page.launches:
            (stages,) = re.findall(r"(\d+) stages", launch.report.pipeline.line)
            assert int(stages) == PIPELINES[file]
            assert launch.timeline.stages == min(int(stages), len(launch.timeline.flights))


def test_a_multistage_pipeline_copies_all_but_one_stage_before_it_reads(gallery_pages):
    (timeline,) = timelines(gallery_pages("gemm_f32.yaml"))
    assert timeline.prefetched == timeline.stages - 1
    (timeline,) = timelines(gallery_pages("matmul_tiled.yaml"))
    assert (timeline.stages, timeline.prefetched) == (1, 1)


def test_a_producer_waits_for_the_release_of_a_stage(gallery_pages):
    (timeline,) = timelines(gallery_pages("gemm_wgmma_f16.yaml"))
    roles = dict(timeline.roles)
    assert list(roles) == ["producer", "consumers"]
    assert {event.kind for event in roles["producer"]} >= {WAIT, COPY}
    assert {event.kind for event in roles["consumers"]} >= {WAIT, MATH, RELEASE}
    released = {event.k_tile: event.slot for event in roles["consumers"] if event.kind == RELEASE}
    refilled = timeline.flights[timeline.stages]
    assert released[refilled.k_tile - timeline.stages] < refilled.issued


@pytest.mark.parametrize("file", ["saxpy.yaml", "softmax.yaml", "transpose_padded.yaml", "blur_shared.yaml"])
def test_a_kernel_without_a_loop_over_tiles_has_no_timeline(file, gallery_pages):
    assert timelines(gallery_pages(file)) == []


def test_a_dynamic_size_has_the_timeline_of_some_size(page_of):
    page = page_of(
        """
cugen: 1
kernel: product
params: {M: 64, N: 64, K: dynamic}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {family: tiled}
"""
    )
    (timeline,) = timelines([page])
    assert len([flight for flight in timeline.flights if flight.reads]) > 2
