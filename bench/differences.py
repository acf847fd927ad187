"""Which of many things differ, by runs that were made in turns: intervals, and tests with a bounded rate of false discoveries.

Figures are positive, and compared by their logarithms. In each cell every thing is measured once a turn. The turns are blocks: what
a turn has in common, such as the hour and the host, is taken out before things are compared (randomised blocks). Each pair is
compared by Welch's test. The false discovery rate over all pairs of all cells is kept by the step-up procedure of Benjamini and
Hochberg (1995). The intervals of the differences are those of Benjamini and Yekutieli (2005): one excludes equality exactly where
the pair differs.

    bench/differences.py

checks all of this on simulated figures whose differences are known.
"""
import itertools, math, random, statistics, sys

# Which share of the differences may be false.
FALSE = 0.05
# Of fewer figures, nothing is said of their spread.
FEWEST = 3


def beta(x, a, b):
    """The regularised incomplete beta function, by its continued fraction."""
    if x in (0, 1):
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(1 - x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 200):
        before = value
        for numerator in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1 / (1 + numerator * d)
            c = 1 + numerator / c
            value *= c * d
        if abs(value - before) < 1e-12 * abs(value):
            break
    return front * value


def beyond(t, freedom):
    """With which probability a value of Student's distribution is as far from zero."""
    return 1.0 if t == 0 else beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def quantile(chance, freedom):
    """What Student's distribution exceeds on either side with that probability, by halving."""
    low, high = 0.0, 1e4
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle, freedom) > chance else (low, middle)
    return high


def interval(logs):
    """The geometric mean and its 95 % interval, of enough figures."""
    mean = statistics.fmean(logs)
    if len(logs) < FEWEST:
        return math.exp(mean), None
    half = quantile(0.05, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), (math.exp(mean - half), math.exp(mean + half))


class Spread:
    """What is known of one thing in a cell: the mean of its logarithms, the variance of that mean, and its degrees of freedom."""

    def __init__(self, mean, variance, freedom):
        self.mean, self.variance, self.freedom = mean, variance, freedom


def spreads(cell, step=1.0):
    """Of logarithms by thing and turn: the spread of each thing with enough turns, without what turns have in common. A figure
    of a search is known to a step; it may be anywhere within it."""
    cell = {name: turns for name, turns in cell.items() if len(turns) >= FEWEST}
    count = sum(map(len, cell.values()))
    turns = {turn for of in cell.values() for turn in of}
    rest = count - len(cell) - len(turns) + 1
    if rest <= 0:
        return {}
    # The means of rows and columns by turns, until nothing changes: at once in a table without gaps.
    own, common = dict.fromkeys(cell, 0.0), dict.fromkeys(turns, 0.0)
    for _ in range(1000):
        before = dict(common)
        for name, of in cell.items():
            own[name] = math.fsum(value - common[turn] for turn, value in of.items()) / len(of)
        for turn in turns:
            values = [of[turn] - own[name] for name, of in cell.items() if turn in of]
            common[turn] = round(math.fsum(values) / len(values), 12)
        if common == before:
            break
    # The turns have taken degrees of freedom: the variances are as much larger.
    factor = (count - len(cell)) / rest
    found = {}
    for name, of in cell.items():
        left = [value - common[turn] for turn, value in of.items()]
        variance = (statistics.variance(left) * factor + math.log(step) ** 2 / 12) / len(left)
        found[name] = Spread(statistics.fmean(left), variance, (len(left) - 1) / factor)
    return found


def apart(plus, minus):
    """The means of `plus` less those of `minus`, with the variance of that and its degrees of freedom (Welch): of two things or, where
    a difference was measured twice, of two on either side."""
    parts = plus + minus
    variance = sum(part.variance for part in parts)
    lost = sum(part.variance**2 / part.freedom for part in parts)
    return sum(part.mean for part in plus) - sum(part.mean for part in minus), variance, variance**2 / lost if lost else math.inf


def chance(distance, variance, freedom):
    """With which probability equal things would be as far apart."""
    if variance == 0:
        return 1.0 if distance == 0 else 0.0
    return beyond(distance / math.sqrt(variance), min(freedom, 1e6))


class Comparison:
    """All pairs of all cells: `cells` has spreads by cell and thing; `is_tested` says of a cell and two things whether they are
    compared."""

    def __init__(self, cells, is_tested=lambda *_: True):
        self.pairs = {}
        for cell, things in cells.items():
            for one, other in itertools.combinations(sorted(things), 2):
                if is_tested(cell, one, other):
                    self.pairs[cell, one, other] = apart([things[one]], [things[other]])
        self.chances = {pair: chance(*found) for pair, found in self.pairs.items()}
        ordered = sorted(self.chances.values())
        found = max((place for place, p in enumerate(ordered, 1) if p <= FALSE * place / len(ordered)), default=0)
        # A pair differs where its probability is not above this; intervals have the rest.
        self.level = FALSE * max(found, 1) / max(len(ordered), 1)

    def differ(self, cell, one, other):
        return self.chances.get((cell, *sorted((one, other))), 1.0) <= self.level

    def count(self):
        return sum(p <= self.level for p in self.chances.values())

    def times(self, cell, one, other):
        """How many times the figure of one thing is that of another one, with the interval of that; `None` where it was not compared."""
        first, second = sorted((one, other))
        if (cell, first, second) not in self.pairs:
            return None
        distance, variance, freedom = self.pairs[cell, first, second]
        half = quantile(self.level, min(freedom, 1e6)) * math.sqrt(variance)
        sign = 1 if first == one else -1
        return math.exp(sign * distance), math.exp(sign * distance - half), math.exp(sign * distance + half)


def shifted(first, second, is_tested=lambda *_: True):
    """Of cells that were measured twice: of each cell, how many differences there are, and how many have shifted, at 95 %."""
    found = {}
    for cell in [cell for cell in first if cell in second]:
        names = sorted(name for name in first[cell] if name in second[cell])
        pairs = [pair for pair in itertools.combinations(names, 2) if is_tested(cell, *pair)]
        moved = sum(chance(*apart([first[cell][a], second[cell][b]], [first[cell][b], second[cell][a]])) < 0.05 for a, b in pairs)
        found[cell] = len(pairs), moved
    return found


def share_of_cells(found):
    """The share of what has shifted, with its 95 % interval. Pairs of a cell have things in common, so cells are drawn, not pairs."""
    of_cells = [counts for counts in found.values() if counts[0]]
    if not of_cells:
        return None
    share = lambda cells: sum(moved for _, moved in cells) / sum(pairs for pairs, _ in cells)
    draw = random.Random(1)
    drawn = sorted(share(draw.choices(of_cells, k=len(of_cells))) for _ in range(2000))
    return share(of_cells), drawn[50], drawn[1949]


def letters(names, differ):
    """Letters by name: two have one in common exactly where they do not differ."""
    # Each pair of which it cannot be said that they differ has a letter in common.
    sets = [{name} for name in names] + [set(pair) for pair in itertools.combinations(names, 2) if not differ(*pair)]
    for one in list(sets):
        for name in names:
            if all(not differ(name, other) for other in one):
                one.add(name)
    largest = [one for one in sets if not any(one < other for other in sets)]
    unique = [one for place, one in enumerate(largest) if one not in largest[:place]]
    unique.sort(key=lambda one: [names.index(name) for name in names if name in one])
    return {name: "".join(chr(ord("a") + at) for at, one in enumerate(unique) if name in one) for name in names}


def simulated(draw, means, turns, noise):
    """Logarithms by thing and turn of one cell. Turns differ by up to twofold, and things have their own noise."""
    common = [draw.uniform(0, math.log(2)) for _ in range(turns)]
    return {name: {turn: mean + common[turn] + draw.gauss(0, noise[name]) for turn in range(turns)} for name, mean in means.items()}


def check():
    """What is promised, on simulated campaigns: half of the things of a cell are equal, the others are up to tenfold apart."""
    draw, campaigns, false, covered, found_again, moved = random.Random(5), 100, [], [], [], []
    for _ in range(campaigns):
        measured = [{}, {}]
        truth = {}
        for cell in range(6):
            means = {name: 0.0 if name < 5 else draw.uniform(0, math.log(10)) for name in range(10)}
            noise = {name: draw.choice([0.03, 0.1, 0.3]) for name in means}
            truth[cell] = means
            for campaign in measured:
                campaign[cell] = spreads(simulated(draw, means, 3, noise))
        comparison = Comparison(measured[0])
        differing = [pair for pair in comparison.pairs if comparison.differ(*pair)]
        wrong = sum(truth[cell][one] == truth[cell][other] for cell, one, other in differing)
        false.append(wrong / max(len(differing), 1))
        for cell, one, other in differing:
            _, low, high = comparison.times(cell, one, other)
            ratio = math.exp(truth[cell][one] - truth[cell][other])
            covered.append(low <= ratio <= high)
            assert not low <= 1 <= high, "an interval excludes equality where a pair differs"
        real = sum(one != other for means in truth.values() for one, other in itertools.combinations(means.values(), 2))
        found_again.append((len(differing) - wrong) / real)
        counts = shifted(*measured).values()
        moved.append(sum(count for _, count in counts) / sum(pairs for pairs, _ in counts))
    least = 1 - FALSE - 2 * math.sqrt(FALSE * (1 - FALSE) / campaigns)
    results = [
        ("false discoveries", statistics.fmean(false), statistics.fmean(false) <= FALSE),
        ("intervals of differences that have the true one", statistics.fmean(covered), statistics.fmean(covered) >= least),
        ("differences that are found", statistics.fmean(found_again), statistics.fmean(found_again) > 0.5),
        ("differences that shift without a cause", statistics.fmean(moved), statistics.fmean(moved) <= 0.06),
        ("Student's quantile at 2 degrees of freedom", quantile(0.05, 2), abs(quantile(0.05, 2) - 4.3027) < 1e-3),
        ("Student's quantile at 10.5", quantile(0.01, 10.5), 3.10 < quantile(0.01, 10.5) < 3.17),
    ]
    for what, value, is_good in results:
        print(f"{what}: {value:.4f}{'' if is_good else ' IS WRONG'}")
    return all(is_good for *_, is_good in results)


if __name__ == "__main__":
    sys.exit(not check())
