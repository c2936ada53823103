#!/usr/bin/env python3
"""Draws docs/images/async_overshoot.svg: two workers, one parameter w, each with the loss (w - target)^2 of its own batch.

usage: tools/draw_async_overshoot.py >docs/images/async_overshoot.svg
In a round both workers read the same value and push one after the other. ASYNC applies both gradients, the second to a
value that it was not computed from, and passes the minimum. SYNC applies their mean.
"""
START, TARGETS, LEARNING_RATE, ROUNDS = 3.0, (0.75, 1.25), 0.4, 6
ASYNC, SYNC = "#c2410c", "#1d4ed8"
WIDTH, HEIGHT, TOP = 400, 260, 80


def play(synchronous):
    """Returns the first value and the value after each update."""
    values = [START]
    for _ in range(ROUNDS):
        gradients = [2 * (values[-1] - target) for target in TARGETS]
        for gradient in [sum(gradients) / 2] if synchronous else gradients:
            values.append(values[-1] - LEARNING_RATE * gradient)
    return values


def loss(value):
    """Returns the loss over both batches, without its constant."""
    return (value - sum(TARGETS) / 2) ** 2


class Panel:
    """A rectangle of the picture with coordinates of its own."""

    def __init__(self, left, min_x, max_x, min_y, max_y):
        self.left, self.min_x, self.max_x, self.min_y, self.max_y = left, min_x, max_x, min_y, max_y

    def x(self, x):
        return self.left + WIDTH * (x - self.min_x) / (self.max_x - self.min_x)

    def y(self, y):
        return TOP + HEIGHT * (self.max_y - y) / (self.max_y - self.min_y)

    def points(self, pairs):
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in pairs)

    def line(self, x1, y1, x2, y2, style):
        print(f'<line x1="{self.x(x1):.1f}" y1="{self.y(y1):.1f}" x2="{self.x(x2):.1f}" y2="{self.y(y2):.1f}" {style}/>')

    def dot(self, x, y, color):
        print(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="5" fill="{color}"/>')

    def label(self, x, y, dx, dy, text, color):
        print(f'<text x="{self.x(x) + dx:.1f}" y="{self.y(y) + dy:.1f}" fill="{color}">{text}</text>')

    def frame(self, title, x_name, y_name, ticks):
        print(f'<text x="{self.left:.1f}" y="{TOP - 14:.1f}" font-weight="bold">{title}</text>')
        style = 'stroke="#64748b" stroke-width="1"'
        self.line(self.min_x, self.min_y, self.max_x, self.min_y, style)
        self.line(self.min_x, self.min_y, self.min_x, self.max_y, style)
        self.label(self.max_x, self.min_y, -8.0 * len(x_name), 38, x_name, "#334155")
        self.label(self.min_x, self.max_y, 6, 12, y_name, "#334155")
        for tick in ticks:
            self.label(tick, self.min_y, -3.5 * len(str(tick)), 18, tick, "#64748b")


def draw_first_round(asynchronous, synchronous):
    panel = Panel(50, -1, 3.4, 0, 5)
    panel.frame("The first round, on the loss over both batches", "value of w", "loss", range(-1, 4))
    curve = [(-1 + 0.05 * i, loss(-1 + 0.05 * i)) for i in range(85)]
    print(f'<polyline fill="none" stroke="#0f172a" stroke-width="1.5" points="{panel.points(curve)}"/>')
    for values, num_moves, color in ((asynchronous, 2, ASYNC), (synchronous, 1, SYNC)):
        for before, after in list(zip(values, values[1:]))[:num_moves]:
            panel.line(before, loss(before), after, loss(after),
                       f'stroke="{color}" stroke-width="2" marker-end="url({color})"')
            panel.dot(after, loss(after), color)
    panel.dot(START, loss(START), "#0f172a")
    panel.label(START, loss(START), -168, -12, "both workers read w = 3", "#0f172a")
    panel.label(asynchronous[2], loss(asynchronous[2]), 10, -14, f"async: {asynchronous[2]:.1f}", ASYNC)
    panel.label(synchronous[1], loss(synchronous[1]), 14, 4, f"sync: {synchronous[1]:.1f}", SYNC)


def draw_all_rounds(asynchronous, synchronous):
    panel = Panel(520, 0, ROUNDS, -1, 3.4)
    panel.frame("All rounds: the value at the ps", "round", "w", range(1, ROUNDS))
    minimum = sum(TARGETS) / 2
    panel.line(0, minimum, ROUNDS, minimum, 'stroke="#94a3b8" stroke-dasharray="5 4"')
    panel.label(ROUNDS, minimum, -75, 40, "minimum", "#64748b")
    for values, updates_per_round, color in ((asynchronous, 2, ASYNC), (synchronous, 1, SYNC)):
        trace = [(i / updates_per_round, value) for i, value in enumerate(values)]
        print(f'<polyline fill="none" stroke-width="2" stroke="{color}" points="{panel.points(trace)}"/>')
        for x, y in trace:
            panel.dot(x, y, color)


def main():
    print('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 400" width="960" height="400" font-family="sans-serif" '
          'font-size="13">\n<rect width="960" height="400" fill="white"/>\n<defs>')
    for color in (ASYNC, SYNC):
        print(f'<marker id="{color[1:]}" viewBox="0 0 8 8" refX="12" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
              f'<path d="M0,0 L8,4 L0,8 z" fill="{color}"/></marker>')
    print('</defs>\n<text x="50" y="30" font-size="16" font-weight="bold">Two workers, one parameter, both gradients from the '
          'same value</text>')
    print(f'<text x="50" y="49" fill="{ASYNC}">async: a step for each gradient, as they come</text>')
    print(f'<text x="520" y="49" fill="{SYNC}">sync: one step with the mean of both</text>')
    draw_first_round(play(False), play(True))
    draw_all_rounds(play(False), play(True))
    print("</svg>")


if __name__ == "__main__":
    main()
