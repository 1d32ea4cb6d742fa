"""What the paper claims, in our words, and the condition for each verdict, fixed before any run that judges it.

Seeds from 1000 upwards judge; the conditions were set on seeds below 100.
"""

from __future__ import annotations

from nips26lib.chapter.claims import Claim, Condition

EVERYWHERE = ("smoke", "laptop", "gpu")

CLAIMS = (
    Claim(
        "fewer-queries",
        "With a decaying learning rate SGD needs exponentially fewer gradients than with any fixed one.",
        (
            Condition("R² of log K_fixed against 1/ε, least over A", ">=", 0.97),
            Condition("that R² minus the R² against log 1/ε, least over A", ">", 0.0),
            Condition("R² of log K_decay against log 1/ε, least over A", ">=", 0.95),
            Condition("degree of K_decay in 1/ε, largest over A", "<", 5.0),
            Condition("K_fixed / K_decay at the smallest ε, least over A", ">=", 100.0),
            Condition("share of steps to a smaller ε at which that ratio grows", "==", 1.0),
            Condition("slope of log K_fixed, relative distance from b/2, largest over A", "<=", 0.5),
        ),
    ),
    Claim(
        "by-sgd",
        "Real SGD shows the advantage in higher dimensions, at a budget of 20,000 gradients.",
        (
            Condition("f at the best fixed rate / f with decay, d = 8", ">=", 3.0),
            Condition("f at the best fixed rate / f with decay, d = 16", ">=", 3.0),
            Condition("the same, lower end of its interval, d = 8", ">", 2.0),
            Condition("the same, lower end of its interval, d = 16", ">", 2.0),
        ),
    ),
    Claim(
        "benchmarks",
        "Popular benchmark functions are in the class: decay wins on them too.",
        (Condition("functions of five on which decay is better, intervals disjoint", ">=", 4.0),),
    ),
    Claim(
        "discretization",
        "SGD with decaying steps follows annealed Langevin diffusion.",
        (
            Condition("share of halvings of η after which the distance is smaller", "==", 1.0),
            Condition("order in η of the total variation distance, from below", ">=", 0.8),
            Condition("order in η of the total variation distance, from above", "<=", 1.3),
        ),
        tested_at=EVERYWHERE,
    ),
    Claim(
        "weak-poincare",
        "Annealing samples a law with many wells in polynomial time, by a weak Poincaré inequality.",
        (
            Condition("slope of log 1/gap against 1/T, relative distance from b", "<=", 0.1),
            Condition("slope of -log μ(B) against 1/T, relative distance from Δ", "<=", 0.1),
            Condition("gap in the good basin, largest over smallest", "<=", 2.5),
            Condition("smallest margin of the inequality over random g", ">=", -1e-10),
            Condition("KL to the Gibbs law while cooling, until wells freeze", "<=", 1.0, unit="nats"),
            Condition("KL of a chain that is cold from the start, at that time", ">", 1.0, unit="nats"),
        ),
        tested_at=EVERYWHERE,
    ),
    Claim(
        "robust",
        "The explanation is robust: it does not hang on the schedule, the noise or the start.",
        (Condition("share of cells in which decay ends lower", ">=", 0.8),),
    ),
    Claim(
        "first",
        "No exponential advantage of a decaying learning rate had been shown before.",
        untestable="It is a statement about the literature; no run can decide it.",
    ),
)
