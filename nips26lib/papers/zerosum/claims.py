"""What the paper claims, in our words, and the condition for each verdict, fixed before any run that judges it.

Seeds from 1000 upwards judge; the conditions were set on seeds below 100.
"""

from __future__ import annotations

from nips26lib.chapter.claims import Claim, Condition

EVERYWHERE = ("smoke", "laptop", "gpu")

CLAIMS = (
    Claim(
        "no-overhead",
        "The protected weights take no more room than the unprotected ones.",
        (Condition("stored bytes, protected / plain", "==", 1.0),),
        tested_at=EVERYWHERE,
    ),
    Claim(
        "clean-accuracy",
        "Without faults, a network trained under the constraint is as accurate as one trained without it.",
        (
            Condition("accuracy, tile minus plain, 32-bit floats", ">=", -1.5, judged_on="low", unit="points"),
            Condition("accuracy, tile minus plain, int8", ">=", -1.5, judged_on="low", unit="points"),
            Condition("accuracy, tile minus plain, int4", ">=", -1.5, judged_on="low", unit="points"),
        ),
    ),
    Claim(
        "random-faults",
        "Weights hit by random bit faults are recovered, whatever the number format.",
        (
            Condition("accuracy of the unprotected float networks, fault rate 1e-3", "<", 0.3),
            Condition("accuracy lost by the tile code, float formats, fault rate 1e-3", "<=", 1.0, unit="points"),
            Condition("weight error, tile / SECDED, int8, fault rate 1e-3", "<=", 0.25),
            Condition("share of formats and seeds where the tile code errs less than a range guard", "==", 1.0),
        ),
    ),
    Claim(
        "cumulative-faults",
        "Faults that keep coming do not add up when the memory is scrubbed, unlike with fault-tolerance methods.",
        (Condition("weight error after the last round, tile / range guard, int8", "<=", 0.3),),
    ),
    Claim(
        "bit-flip-attack",
        "A strong white-box bit-flip attack that ruins an unprotected network is survived.",
        (
            Condition("accuracy, unprotected, 40 flips", "<=", 0.3),
            Condition("accuracy lost by the tile code, 20 flips", "<=", 3.0, unit="points"),
            Condition("accuracy, tile minus unprotected, 80 flips", ">=", 0.4),
        ),
    ),
    Claim(
        "any-format",
        "The method is tied to no precision and no architecture, unlike in-place error-correcting codes.",
        (
            Condition("share of formats and networks protected by the tile code", "==", 1.0),
            Condition("number formats that in-place ECC accepts", "<=", 1.0),
        ),
    ),
    Claim(
        "concentrated-surface",
        "Error-correcting codes expose a small surface: flips of check bits alone corrupt chosen weights.",
        (
            Condition("wrong data bits per three check-bit flips", ">=", 1.0),
            Condition("accuracy, check bits 3k flips minus unprotected k flips", "<=", 0.05),
        ),
    ),
    Claim(
        "adaptive-attacks",
        "Attacks that know the recovery hurt more than blind ones, and error-correcting codes suffer most.",
        (
            Condition("flips to half accuracy, tile, adaptive / blind", "<", 1.0),
            Condition("flips to half accuracy, SECDED, adaptive / blind", "<", 1.0),
            Condition("flips to half accuracy under adaptive attack, tile / SECDED", ">=", 1.5),
        ),
    ),
    Claim(
        "consistent",
        "The advantage holds over architectures, precisions, data sets and threats.",
        (Condition("share of cells in which the tile code ranks first or second", ">=", 0.8),),
    ),
)
