"""A DataLoader in the place of a data set: the error says what to pass, so that the same examples are trained with."""

import pytest
from test_training import DATA
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import shoal
from shoal.torch.data import check_data_set

SUBSET = "pass those that the sampler has, trainer.batches(Subset(loader.dataset, indices), batch_size=…)"
WHOLE = "the training data is a DataLoader; pass its data set: trainer.batches(loader.dataset, batch_size=…)"


class Pairs(BatchSampler):
    pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, WHOLE),
        ({"shuffle": True, "batch_size": 4, "drop_last": True}, WHOLE),
        ({"sampler": SequentialSampler(DATA)}, WHOLE),
        ({"batch_sampler": BatchSampler(RandomSampler(DATA), 4, False)}, WHOLE),
        ({"sampler": DistributedSampler(DATA, 2, 0)}, WHOLE),
        ({"batch_size": None}, WHOLE),
        ({"sampler": SubsetRandomSampler(range(4))}, "its SubsetRandomSampler chooses examples"),
        ({"batch_sampler": BatchSampler(SubsetRandomSampler(range(4)), 2, False)}, SUBSET),
        ({"sampler": SubsetRandomSampler(range(4))}, SUBSET),
        ({"sampler": SequentialSampler(range(4))}, SUBSET),
        ({"sampler": RandomSampler(DATA, num_samples=4)}, "its RandomSampler chooses examples"),
        ({"sampler": RandomSampler(DATA, replacement=True)}, "examples with weights are not possible"),
        ({"sampler": WeightedRandomSampler([1.0, 2.0], 2)}, "and weight the loss of each example instead"),
        ({"batch_sampler": Pairs(SequentialSampler(DATA), 4, False)}, "its Pairs chooses examples"),
        ({"collate_fn": lambda rows: rows}, WHOLE + "; pass collate_fn=loader.collate_fn too"),
        ({"collate_fn": lambda rows: rows, "sampler": [1, 2]}, "its list chooses examples"),
    ],
)
def test_the_remedy_for_a_loader_keeps_what_it_chooses(options, message):
    with pytest.raises(shoal.ProgramError) as raised:
        check_data_set(DataLoader(DATA, **options), "the training data")
    assert message in str(raised.value)
    assert ("collate_fn" in str(raised.value)) == ("collate_fn" in options)


def test_a_loader_of_a_stream_is_refused_like_the_stream():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([1.0])

    with pytest.raises(shoal.ProgramError, match="which has no examples by number"):
        check_data_set(DataLoader(Stream()), "the training data")
