"""Ids: well-formed, never the same twice, and the same again where a seed says so."""

import re
import uuid
from collections import Counter

from gpuaas.base.ids import SeededIds, SystemIds


def test_uids_of_the_system_are_random_uuids() -> None:
    ids = SystemIds()
    drawn = [ids.uid() for _ in range(1_000)]
    assert len(set(drawn)) == len(drawn)
    for uid in drawn:
        read = uuid.UUID(uid)
        assert (str(read), read.version, read.variant) == (uid, 4, uuid.RFC_4122)


def test_two_sources_of_the_system_share_nothing() -> None:
    one, two = SystemIds(), SystemIds()
    assert not {one.uid() for _ in range(300)} & {two.uid() for _ in range(300)}


def test_a_seed_gives_the_same_ids_in_the_same_order() -> None:
    one, two = SeededIds(3), SeededIds(3)
    assert [one.uid(), one.suffix()] == [two.uid(), two.suffix()]
    assert SeededIds(4).uid() != SeededIds(3).uid()


def test_suffixes_spell_no_words() -> None:
    assert re.fullmatch("[bcdfghjklmnpqrstvwxz2456789]{5}", SystemIds().suffix())


def test_no_letter_ends_names_much_more_often_than_another() -> None:
    ids = SystemIds()
    drawn = Counter("".join(ids.suffix() for _ in range(4_000)))
    assert len(drawn) == 27
    assert all(500 < count < 1_000 for count in drawn.values()), drawn
