"""The trainer: it gives a model the parameters of each batch, and the worker the gradients."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import torch

from shoal import _protocol, optimizers
from shoal._metrics import AUC, Metric, Value, add, value_of
from shoal._rows import check_tables
from shoal._work import FINAL_BYTES
from shoal.errors import ProgramError
from shoal.tables import Table
from shoal.torch import data
from shoal.torch.convert import check_all_are_optimized, from_torch, taken_over
from shoal.torch.files import take_result
from shoal.torch.guard import refused
from shoal.torch.memory import Memory, Streams, make_memory, tensors_of_sets
from shoal.torch.model import (
    BufferCheck,
    Models,
    check_entries,
    describe_constants,
    load_buffers,
    named_models,
    tensors_of,
    variable_name,
    variables_of,
    warnings_about,
    why_not_the_same,
)
from shoal.torch.modes import Modes, check_training_modes
from shoal.torch.rehearsal import Rehearsal, contributions_of
from shoal.torch.settings import computation_of, number_in, set_threads
from shoal.torch.tables import BatchRows, NamedKeys, _TableModule
from shoal.torch.values import arrays_of, losses_of, mean_of, run_backward
from shoal.torch.watch import ParameterCheck, Watch
from shoal.worker import Work, Worker

# A tensor with the mean over the batch or with a value per example, several of them, one for each model, or a number.
Loss = Any

_NO_STEP = (
    "ended without trainer.step(loss); call it once for every batch, or trainer.skip() for one that has nothing to "
    "learn from"
)


class Trainer:
    """Trains a model, or several of them, with the variables of a run.

        trainer = shoal.torch.Trainer(worker, model, shoal.Adam(1e-3))
        for batch in trainer.batches(train_set, batch_size=64, epochs=3, test=test_set):
            loss = F.cross_entropy(model(batch[0]), batch[1])
            trainer.step(loss)

    model: an nn.Module, or a list or dict of them, whose names then begin with the index or key.
    optimizer: shoal.Adam, …, or one of PyTorch's, which from_torch converts. None: the run's.
    metrics: the names that step() may report, at most 16; shoal.AUC(name), or the name "auc", is an AUC.
    statistics: names of buffers, beside those of batch norm, that a batch changes; the mean of a step's values counts.
    overlap: send gradients while the backward pass continues.
    tables: of embedding rows, which shoal.torch.EmbeddingBag and Embedding look up in the loop. Behind it
        shoal.torch.load(worker.directory, model) gives the modules the rows of the run.
    """

    def __init__(
        self,
        worker: Worker,
        model: Models,
        optimizer: Union[optimizers.Optimizer, torch.optim.Optimizer, None] = None,
        *,
        metrics: Sequence[Metric] = ("accuracy",),
        statistics: Sequence[str] = (),
        overlap: bool = True,
        tables: Sequence[Table] = (),
        _streams: Optional[Streams] = None,
    ) -> None:
        if not isinstance(worker, Worker):
            raise ProgramError(f"worker is a {type(worker).__name__}; make it first: worker = shoal.Worker()")
        if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
            raise ProgramError(f"PyTorch {torch.__version__} is too old; shoal.torch needs 2.1")
        self._worker = worker
        self._models = named_models(model)
        if isinstance(optimizer, torch.optim.Optimizer):
            optimizer = from_torch(optimizer, model)
        self._optimizer = optimizer
        self._metrics = metrics if isinstance(metrics, (str, AUC)) else tuple(metrics)
        self._statistics = tuple(variable_name(str(name)) for name in statistics)
        self._overlap = overlap
        self._tables = tables
        self._rows = BatchRows(check_tables(tables, {}))
        for module in self._models.values():
            for part in module.modules():
                if isinstance(part, _TableModule):
                    part._bind(self)
        self._streams = _streams
        self._work: Optional[Work] = None
        self._memory: Optional[Memory] = None
        self._rehearsal: Optional[Rehearsal] = None
        self._rehearses = False
        self._collects = False
        self._is_held = False  # The result waits until the body of the loop has ended.
        self._watch = Watch()
        self._trained: dict[str, Any] = {}
        self._expected: dict[str, int] = {}  # How often a gradient arrives in one backward pass.

    @property
    def training(self) -> bool:
        """True if the current batch is one to train with; the same after its step()."""
        return self._current("training").is_training

    @property
    def work(self) -> Work:
        """The current batch: its index, indices and seed, and in training step and epoch; the same after its step()."""
        return self._current("work")

    def batches(
        self,
        train: Any,
        batch_size: Optional[int] = None,
        epochs: Optional[int] = None,
        *,
        test: Any = None,
        test_batch_size: Optional[int] = None,
        evaluation_gradients: bool = False,
        max_steps: Optional[int] = None,
        num_workers: int = 0,
        prefetch_factor: int = 2,
        collate_fn: Optional[Callable[[Any], Any]] = None,
        keys: Optional[Callable[[Any], Mapping[str, Any]]] = None,
        data_fingerprint: Optional[int] = None,
        **loader_options: Any,
    ) -> Iterator[Any]:
        """Yields the batches that this worker computes, of training and of test data, until the run is over.

        train, test: map-style data sets.
        test_batch_size: the examples of a batch of the test data; None: the run's batch size. No batch is larger than
            data.evaluation_block of the run (500), because a worker gets the test data in blocks of so many examples.
        num_workers: processes that read ahead. loader_options: of DataLoader,
            such as pin_memory, timeout and worker_init_fn; they are for these processes, and refused without them.
        keys: returns for a batch the keys of all its look-ups, {table: keys, or a list of keys}. Their rows are there
            when the batch is yielded, and the rows of the next batch are asked for together with its parameters.
        During an evaluation the models are in eval mode, and step() only reports. Gradients are off in it, as under
        torch.no_grad(), unless the program calls backward() itself: `with torch.enable_grad():` turns them on for a
        part of it, evaluation_gradients=True for all of it.
        """
        if self._memory is not None:
            raise ProgramError(
                "trainer.batches() was called a second time; one loop over it gets the batches of all epochs: "
                "trainer.batches(…, epochs=3)"
            )
        data.check_data_set(train, "the training data")
        if test is not None:
            data.check_data_set(test, "the test data")
        data.check_loader_options(loader_options, num_workers, _OPTIONS_OF_BATCHES)
        named_keys = NamedKeys(self._worker, self._rows, keys)
        check_training_modes(self._models)
        reads_ahead = keys is not None
        source = data.Source(train, test, num_workers, prefetch_factor, collate_fn, loader_options, reads_ahead)
        if test_batch_size is not None:
            data.check_count("test_batch_size", test_batch_size, 1)
        self._test_batch_size = test_batch_size or number_in(self._worker.run_file, "batch_size") or batch_size
        self._source, self._named_keys = source, named_keys
        self._evaluation_gradients = evaluation_gradients
        fingerprint = data.fingerprint(train) if data_fingerprint is None else data_fingerprint
        self._declare(
            examples=len(train), test_examples=0 if test is None else len(test), batch_size=batch_size, epochs=epochs,
            max_steps=max_steps, prefetch=source.ahead, data_fingerprint=fingerprint,
        )  # fmt: skip
        source.start()
        with self._prepared():
            for work in self._worker:
                if self._rehearses and work.is_training:
                    yield from self._rehearse(work, source)
                if work.is_training:
                    batch = source.get(self._worker, work)
                    self._begin(work)
                    yield from self._offer(work, batch)
                else:
                    yield from self._evaluate(work, source)
            source.stop()
        # The run has exported it before the loop ends.
        self._watch.warn(take_result(self._models, self._worker.directory))

    def _evaluate(self, work: Work, source: data.Source) -> Iterator[Any]:
        """Yields a block of the test data in batches; what is reported of them adds up to the result of the block."""
        indices, seed = work.indices, work.seed
        size = self._test_batch_size or len(indices)
        for at in range(0, len(indices), size):
            self._is_last_of_block = at + size >= len(indices)
            work.indices, work.seed = indices[at : at + size], (seed + at) % (1 << 64)
            batch = source.get_test(self._worker, work, at)
            if at == 0:
                self._begin(work)
            else:
                self._begin_batch(work)
            yield from self._offer(work, batch)

    def _offer(self, work: Work, batch: Any) -> Iterator[Any]:
        """Yields a batch, which has begun, and checks that it ends with a step."""
        self._named_keys.look_up(work, batch)
        with torch.set_grad_enabled(work.is_training or self._evaluation_gradients or not self._watch.runs_backward):
            yield batch
        if not self._has_stepped:
            raise ProgramError(f"{work} {_NO_STEP}")
        if self._is_held:
            self._check_parameters(work.parameter_set)
            self._is_held = work.is_done = False
            self._hand_over(work)

    def _check_parameters(self, number: Optional[int] = None) -> None:
        """Raises ProgramError for what the program has done to parameters where the run would lose it.

        number: the parameter set, if it still has the values of the batch.
        """
        when = " after trainer.step() or in an evaluation"
        self._parameter_check.check_replaced(when)
        self._parameter_check.check_written(number, number is not None, when)

    def step(self, loss: Loss = None, **metrics: Any) -> None:
        """Ends the batch: runs the backward pass and contributes the gradients; in an evaluation it only reports.

        loss: the mean over the batch, or a value per example; several losses are added. A dict of losses,
            {"judge": loss_a, "generator": loss_b}, gives each of several models the gradient of its own loss only;
            in training each model has one.
            If the program has called backward() itself, as with an optimizer, the loss is only reported and the
            gradients are what it left: then it must have called backward() for all losses. After a backward pass for
            something else, such as the gradient of the inputs, call zero_grad().
        metrics: for each name a value per example, the mean over the batch, or (sum, weight); of an AUC
            (scores, labels).
        """
        work = self._open("step()")
        if not work.is_training:
            self._modes.check_evaluation()
        else:
            self._modes.check_training()
        size = len(work.indices)
        if loss is None and self._covered < size:
            raise ProgramError("step() needs the loss of the batch: trainer.step(loss)")
        if loss is not None and self._covered == size:
            raise ProgramError(
                "backward() was called for all examples of the batch, so this loss would not count; add it to the loss "
                "of a backward() call, and end with trainer.step()"
            )
        if loss is not None:
            self._add(loss, size - self._covered, metrics, is_last=True)
        else:
            self._add_metrics(metrics, size)
        self._end_batch(work)

    def skip(self) -> None:
        """Ends a batch that has nothing to learn from: it contributes zeros in place of gradients, and no metrics.

        Its step still has as many batches and examples, so the mean of its gradients becomes smaller, and the loss of
        the batch counts as 0, in an evaluation too. Statistics keep their values. The optimizer makes the update, so
        momentum and weight decay change parameters as ever.
        """
        work = self._open("skip()")
        if self._covered:
            raise ProgramError("trainer.skip() is called after backward(); call one of them for a batch")
        self.zero_grad()
        if work.is_training:  # The batch may have changed them before it was given up.
            load_buffers(self._buffers, self._values[work.parameter_set], work._step, is_first=False)
        self._end_batch(work, is_skipped=True)

    def _end_batch(self, work: Work, is_skipped: bool = False) -> None:
        """Hands the result of a batch to the worker."""
        self._has_stepped = True
        if work.is_training:
            self._buffer_check.remember_statistics()
        if self._rehearsal is not None and self._rehearsal.is_running:
            contributions = contributions_of(self._trained, self._buffers)
            self._rehearsal.keep(contributions, self._rows.summed_gradients(), self._loss_sum)
            work.progress()
            return
        if work.is_training:
            self._contribute(work, is_skipped)
            if self._rehearsal is not None:  # The rest of the body may clear the gradients.
                self._rehearsal.rows = self._rows.summed_gradients()
            self._named_keys.name_next(work, self._source)
            self._watch.end_batch()
            if not self._watch.is_careful:
                self._buffer_check.forget_values()
        else:
            self._buffer_check.check()
            if not self._is_last_of_block:
                work.progress()
                return
        if self._looks_for_writes:
            self._is_held = work.is_done = True
        else:
            self._hand_over(work)

    def _hand_over(self, work: Work) -> None:
        work.done(self._loss_sum, metrics=self._sums)
        if self._rehearsal is not None and work.is_training:
            self._rehearsal.compare(work, self._loss_sum)
            self._rehearsal = None

    def backward(self, loss: Loss, examples: int, **metrics: Any) -> None:
        """Gradient accumulation: the backward pass of a part of the batch, with so many examples.

        The parts together must be the batch; step() without a loss, or with that of the last part, ends it.
        """
        work = self._open("backward()")
        size = len(work.indices)
        if isinstance(examples, bool) or not isinstance(examples, int) or not 0 < examples <= size - self._covered:
            raise ProgramError(f"backward() of {examples!r} examples: {self._covered} of {size} were there before")
        self._add(loss, examples, metrics, is_last=False)
        work.progress()

    def look_up(self, keys: Mapping[str, Any]) -> None:
        """Looks up rows of several tables at once, before the modules need them: {table: keys, or a list of keys}.

        Without it, each forward pass of an EmbeddingBag or Embedding waits for the parameter servers by itself.
        """
        self._open("look_up()")
        if not isinstance(keys, Mapping):
            raise ProgramError(f"look_up() needs the keys of each table, {{name: keys}}, not a {type(keys).__name__}")
        for table in keys:
            self._worker._check_table(table)
        self._rows.look_up(keys)

    def stop(self, flags: Sequence[str] = ()) -> None:
        """Asks the run to make a checkpoint and to stop, and does not wait for that: Worker.stop()."""
        self._worker.stop(flags)

    def last_evaluation(self) -> Optional[dict[str, Any]]:
        """Returns the newest evaluation of the run as a whole, None before it: Worker.last_evaluation()."""
        return self._worker.last_evaluation()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients, as an optimizer's does. They are clear already when a batch begins."""
        for parameter in self._trained.values():
            parameter.grad = None
        self._rows.zero_grad()

    def check_determinism(self) -> None:
        """The first batch is computed twice, with another one in between; ProgramError names what differs.

        Call it before batches(); the loop then sees two batches more.
        """
        self._rehearses = True

    # Start.

    def _declare(self, **options: Any) -> None:
        self._entries = list(tensors_of(self._models, self._statistics))
        device = check_entries(self._entries, self._statistics, bool(self._tables))
        self._parameters = {e.name: e.tensor for e in self._entries if e.kind == "parameter"}
        self._trained = {name: p for name, p in self._parameters.items() if p.requires_grad}
        check_all_are_optimized(self._optimizer, self._trained)
        set_threads(self._worker.run_file)
        if self._worker.index == 0:
            for warning in warnings_about(self._models, self._worker.run_file, device):
                self._watch.warn(warning)
        self._worker.declare(
            variables_of(self._entries), tables=self._tables, optimizer=self._optimizer, metrics=self._metrics,
            computation=computation_of(device) + describe_constants(self._entries), **options,
        )  # fmt: skip
        self._rows.start(device)
        self._values = tensors_of_sets(self._worker._parameters)
        self._targets = tensors_of_sets(self._worker._contributions)
        self._buffers = [e for e in self._entries if e.kind not in ("parameter", "constant")]
        copy_of = self._worker._copy_parameters
        self._memory = make_memory(device, self._parameters, self._values, self._targets, self._streams, copy_of)
        self._parameter_check = ParameterCheck(self._memory, self._parameters)

    @contextlib.contextmanager
    def _prepared(self) -> Iterator[None]:
        """Hooks and modes of the models; afterwards the models are as before."""
        hooked = self._trained.items() if self._overlap else ()
        self._hooks = [p.register_post_accumulate_grad_hook(self._make_hook(name)) for name, p in hooked]
        self._names = {id(parameter): name for name, parameter in self._parameters.items()}
        self._buffer_check = BufferCheck(self._entries)
        self._modes = Modes(self._models)
        self._is_first = True
        try:
            owned = self._names.keys()
            self._taken_over = taken_over(owned)
            with refused(owned, self._waits_for_backward, self._leaves_gradients) as self._scaling:
                yield
        finally:
            for hook in self._hooks:
                hook.remove()
            self._modes.restore()
            assert self._memory is not None
            self._memory.release()
            self._rows.end()
            self._work = None

    def _waits_for_backward(self) -> bool:
        """Returns whether a training batch has no gradients yet."""
        has_none = all(parameter.grad is None for parameter in self._trained.values())
        return self._is_open_training() and has_none and next(self._rows.gradients(), None) is None

    def _leaves_gradients(self, cleared: Collection[int]) -> bool:
        """Returns whether a training batch has gradients of other parameters than these, by id()."""
        has_others = any(p.grad is not None and id(p) not in cleared for p in self._trained.values())
        return has_others and self._is_open_training()

    def _is_open_training(self) -> bool:
        return self._work is not None and self._work.is_training and not self._has_stepped

    # One batch.

    def _begin(self, work: Work) -> None:
        """Gives the models the parameters, buffers, modes and random numbers of a batch."""
        assert self._memory is not None
        if not self._is_first:  # The program may have changed something after step().
            self._buffer_check.check()
            self._buffer_check.check_statistics()
            self._check_parameters()
        self._work = work
        self._loss_sum = 0.0
        self._sums: dict[str, Value] = {}
        self._fired: dict[str, int] = {}
        self._stored: set[str] = set()
        self._looks_for_writes = self._watch.looks_for_writes(work.is_training)
        self._memory.load(work.parameter_set, self._looks_for_writes)
        self._rows.begin(work)
        load_buffers(self._buffers, self._values[work.parameter_set], work._step, self._is_first)
        if self._is_first:
            self._buffer_check.remember()
        self._buffer_check.remember_statistics()
        self._is_first = False
        torch.clear_autocast_cache()
        self._begin_batch(work)

    def _begin_batch(self, work: Work) -> None:
        """Begins a batch, also one of a block of the test data, with the parameters and buffers that are there."""
        self._covered = 0
        self._has_stepped = False
        for parameter in self._parameters.values():
            parameter.grad = None
        self._rows.zero_grad()
        self._modes.set(work.is_training)
        data.seed_all(work.seed)

    def _current(self, what: str) -> Work:
        if self._work is None:
            raise ProgramError(f"trainer.{what} is for the body of: for batch in trainer.batches(…)")
        return self._work

    def _open(self, what: str) -> Work:
        work = self._current(what)
        if self._has_stepped:
            several = ', or step({"judge": loss_a, "generator": loss_b}) if each model has its own'
            remedy = f"; one step() has all losses: step([loss_a, loss_b]){several}" if what == "step()" else ""
            raise ProgramError(f"trainer.{what} is called for {work} after step(){remedy}")
        return work

    def _add(self, loss: Loss, examples: int, metrics: dict[str, Any], is_last: bool) -> None:
        """Adds a loss over `examples` examples, and runs its backward pass if the program has not.

        is_last: step() follows at once, so gradients that are there may leave. Behind a backward() they may be clipped.
        """
        work = self._open("step()")
        losses, inputs = losses_of(loss, self._models, bool(self._tables), work.is_training)
        means = [mean_of(part, examples) for part in losses]
        size = len(work.indices)
        may_have_run = is_last and self._covered == 0
        self._covered += examples
        value = sum(float(mean.detach()) for mean in means)
        self._loss_sum += value * examples
        self._add_metrics(metrics, examples)
        if not work.is_training:
            return
        self._scaling.check()
        left = itertools.chain((p.grad for p in self._trained.values() if p.grad is not None), self._rows.gradients())
        is_finite = math.isfinite(value)
        if self._watch.has_run(means, is_finite, self._names, left if may_have_run else None):
            return
        if not any(mean.requires_grad for mean in means):
            raise ProgramError(
                "the loss does not depend on the parameters: was it detached, or made under torch.no_grad()? A batch "
                "that has nothing to learn from ends with trainer.skip() in the place of step()"
            )
        self._watch.runs_backward = self._watch.runs_backward or is_finite
        is_rehearsal = self._rehearsal is not None and self._rehearsal.is_running
        self._collects = is_last and self._overlap and not is_rehearsal
        try:
            run_backward(means, inputs, examples / size)
        finally:
            self._collects = False
        if self._fired and not self._expected and not is_rehearsal:
            self._learn_order()

    def _learn_order(self) -> None:
        """Called after the first backward pass, when it is known how often and in which order gradients arrive."""
        assert self._memory is not None
        self._expected = dict(self._fired)
        early = sum(self._trained[name].nbytes for name in list(self._fired)[:-1])
        if self._memory.is_shared and early < FINAL_BYTES:
            for hook in self._hooks:  # No FINAL would ever be sent, so all gradients are copied at the end.
                hook.remove()

    def _add_metrics(self, metrics: dict[str, Any], examples: int) -> None:
        for name, value in metrics.items():
            is_auc = self._worker._metrics.get(name) == _protocol.AUC
            part = value_of(self._worker._metrics, name, arrays_of(value, is_auc), examples)
            self._sums[name] = add(self._sums[name], part) if name in self._sums else part

    def _make_hook(self, name: str) -> Callable[[Any], None]:
        def hook(parameter: Any) -> None:
            """A gradient has arrived; a parameter that is used by nested backward passes has several."""
            if self._collects:
                fired = self._fired[name] = self._fired.get(name, 0) + 1
                if fired == self._expected.get(name):
                    self._store(name, parameter)
                    if len(self._stored) < len(self._trained):  # DONE follows the last one.
                        self._send_settled(self._memory.settled())  # type: ignore[union-attr]

        return hook

    def _store(self, name: str, parameter: Any) -> None:
        assert self._work is not None
        assert self._memory is not None
        if name in self._stored:
            raise ProgramError(
                f"the gradient of {name} came in more parts than in the batches before; use Trainer(…, overlap=False)"
            )
        gradient, parameter.grad = parameter.grad, None
        self._stored.add(name)
        self._work.gradients._whole(name)  # Marks it as written.
        self._memory.store(name, gradient, self._work.contribution_set)

    def _send_settled(self, names: Sequence[str]) -> None:
        if self._work is not None and names:
            self._work.final(*names)

    def _contribute(self, work: Work, is_skipped: bool) -> None:
        """Does the rest at the end of a batch: checks, gradients, statistics."""
        assert self._memory is not None
        for optimizer in self._taken_over:
            optimizer.check()
        self._parameter_check.check(work.parameter_set, self._watch.is_careful)
        self._buffer_check.check(compares_sums=self._watch.is_careful)
        other = why_not_the_same(self._models, self._trained) if self._watch.is_careful else ""
        if other:
            raise ProgramError(other)
        if self._watch.is_careful and not is_skipped:
            trained = self._trained.items()
            self._watch.warn_of_unreached([n for n, p in trained if p.grad is None and n not in self._stored])
        for name, parameter in self._trained.items():
            if parameter.grad is not None:
                self._store(name, parameter)
        for entry in self._buffers:
            if entry.kind == "statistic":
                work.gradients._whole(entry.name)
                self._memory.store(entry.name, entry.tensor, work.contribution_set)
        self._rows.contribute()
        self._memory.finish()  # DONE makes the rest final.

    # check_determinism()

    def _rehearse(self, work: Work, source: data.Source) -> Iterator[Any]:
        """The batch, then its examples in reverse order as another batch; the real one follows."""
        self._rehearses = False
        self._rehearsal = Rehearsal()
        for indices in self._rehearsal.batches(work):
            batch = source.peek(self._worker, work, indices)
            self._begin(work)
            self._named_keys.forget_next()
            self._named_keys.look_up(work, batch)
            yield batch
            if self._rehearsal.is_incomplete():
                raise ProgramError(f"{work} {_NO_STEP}")


_OPTIONS_OF_BATCHES = [
    name for name, option in inspect.signature(Trainer.batches).parameters.items()
    if name != "self" and option.kind is not option.VAR_KEYWORD
]  # fmt: skip
