"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Command, Extension, Offer

EXTENSION = Extension(
    "Runs serves on the machines of a Ray cluster: [cluster.NAME].",
    commands=(Command("cluster", "stoker_ray.commands:app", "Ray clusters: their nodes, GPUs and jobs."),),
    drivers=(Offer("ray", "stoker_ray.driver:RayDriver"),),
    doctor="stoker_ray.doctor:findings",
)
