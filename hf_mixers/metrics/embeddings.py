"""How well frozen vectors tell classes apart: nearest neighbours, a linear probe, clusters."""

import numpy as np

Vectors = np.ndarray


def embedding_report(
    train: tuple[Vectors, np.ndarray],
    test: tuple[Vectors, np.ndarray],
    *,
    neighbours: int = 5,
    seed: int = 0,
) -> dict[str, float]:
    """Accuracies of nearest neighbours and of a linear probe, and how well clusters fit classes.

    Args:
        train: Vectors `(N, D)` and classes `(N,)` to look for neighbours in and to fit the probe.
        test: The same of what is scored; clusters are made of these alone, without their classes.

    Returns:
        `neighbours_accuracy` and `neighbours_balanced_accuracy` (cosine distance, majority, ties
        by similarity), `probe_accuracy`, `clusters_nmi` (normalised mutual information of k-means
        with as many clusters as classes).
    """
    try:
        from sklearn.cluster import KMeans
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import balanced_accuracy_score, normalized_mutual_info_score
    except ImportError as error:
        raise ImportError(
            "Reports of embeddings need scikit-learn: pip install hf-mixers[baselines]."
        ) from error
    (train_x, train_y), (test_x, test_y) = train, test
    train_y, test_y = np.asarray(train_y), np.asarray(test_y)
    found = vote(train_x, train_y, test_x, neighbours)
    centre, spread = train_x.mean(0), train_x.std(0) + 1e-6
    probe = LogisticRegression(C=0.1, max_iter=300)
    probe.fit((train_x - centre) / spread, train_y)
    right = probe.predict((test_x - centre) / spread) == test_y
    clusters = KMeans(len(np.unique(test_y)), n_init=3, random_state=seed).fit_predict(
        _unit(test_x)
    )
    return {
        "neighbours_accuracy": float((found == test_y).mean()),
        "neighbours_balanced_accuracy": float(balanced_accuracy_score(test_y, found)),
        "probe_accuracy": float(right.mean()),
        "clusters_nmi": float(normalized_mutual_info_score(test_y, clusters)),
    }


def vote(train_x: Vectors, train_y: np.ndarray, test_x: Vectors, neighbours: int = 5) -> np.ndarray:
    """The class that most of the nearest vectors by cosine have; ties go to the more similar ones.

    >>> vote(np.eye(2), np.array([3, 7]), np.array([[1.0, 0.1]]), neighbours=1)
    array([3])
    """
    classes, numbers = np.unique(train_y, return_inverse=True)
    known = _unit(train_x)
    answers = []
    # rows that are compared at once, so that memory stays small
    for rows in np.array_split(_unit(test_x), max(1, len(test_x) // 512)):
        similar = rows @ known.T
        nearest = np.argpartition(-similar, min(neighbours, len(known)) - 1, axis=1)
        nearest = nearest[:, :neighbours]
        votes = np.zeros((len(rows), len(classes)))
        weights = 1 + 1e-3 * np.take_along_axis(similar, nearest, 1)
        np.add.at(votes, (np.arange(len(rows))[:, None], numbers[nearest]), weights)
        answers.append(classes[votes.argmax(1)])
    return np.concatenate(answers)


def _unit(vectors: Vectors) -> Vectors:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
