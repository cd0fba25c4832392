"""The plot of docs/compared.md: cost by length."""

from pathlib import Path

from compared.answers import NETWORKS, TITLES, Results, list_lengths, list_methods

__all__ = ["draw"]


def draw(results: Results, path: Path) -> None:
    """Draw cost by length for both networks."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(12, 5), layout="constrained", sharey=True)
    names = list(
        dict.fromkeys((t, m) for network in NETWORKS for t, m, _ in list_methods(results, "costs", network))
    )
    others = [name for name in names if name[0] != "whyword"]
    colours = {name: plt.get_cmap("tab20")(place % 20) for place, name in enumerate(others)}
    for axes, network in zip(panels, NETWORKS, strict=True):
        for tool, method, found in list_methods(results, "costs", network):
            cells = [each for each in found.get("costs", ()) if "multiple" in each]
            own = tool == "whyword"
            axes.plot(
                [each["tokens"] for each in cells],
                [each["multiple"] for each in cells],
                marker={"flow": "D", "logit": "s", "alti-logit": "^"}.get(method, "o"),
                linewidth=2.5 if own else 1.2,
                linestyle={"logit": "--", "alti-logit": ":"}.get(method, "-") if own else "-",
                color="black" if own else colours[tool, method],
                label=f"{TITLES[tool]}: {method}",
            )
        lengths = list_lengths(results, network)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.set_yticks([1, 2, 5, 10, 20, 50, 100, 200], ["1", "2", "5", "10", "20", "50", "100", "200"])
        axes.minorticks_off()
        axes.axhline(1, color="0.6", linewidth=1)
        axes.set_xlabel("tokens")
        axes.set_title(network)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("CPU time, forward pass = 1")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)
