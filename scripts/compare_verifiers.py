#!/usr/bin/env python3
"""Compare the stream verifier with its plain reference on random and damaged streams.

The reference (`scripts/verification/reference.py`) follows docs/isa.md step by step and shares no code with
the verifier. Streams are random programs, random programs that initialise their scratchpads, and compiled
operators; from each come streams with one fault. The verdicts must agree: safe, stuck, changing the
stream's micro-ops, or unsafe with the same first instruction and the same violations. Exit status 1 if they
differ.
"""

import random
import sys
from collections import Counter

import click
from verification.streams import damaged, disagreement, random_stream, verifier_verdict

FAULTS = 9  # damaged streams for each safe stream


@click.command(help=__doc__)
@click.option("--streams", default=1000, show_default=True)
@click.option("--seed", default=0, show_default=True, help="Seed of the first stream.")
@click.option("--first", is_flag=True, help="Stop at the first disagreement.")
def main(streams: int, seed: int, first: bool) -> None:
    counts: Counter[str] = Counter()
    configs, wrong = set(), 0
    with click.progressbar(range(streams), label="streams", file=sys.stderr) as numbers:
        for number in numbers:
            origin, fault = divmod(number, FAULTS + 1)
            subject = random_stream(seed + origin)
            if fault:
                subject = damaged(subject, random.Random(f"{seed + origin} {fault}"))
            configs.add(subject.config)
            difference = disagreement(subject)
            counts[verifier_verdict(subject).fault or "safe"] += 1
            if difference:
                wrong += 1
                click.echo(f"stream {seed + origin}, fault {fault}: {difference[:1000]}")
                if first:
                    break
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    click.echo(f"{counts.total()} streams ({kinds}) on {len(configs)} configurations: {wrong} disagreements")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
