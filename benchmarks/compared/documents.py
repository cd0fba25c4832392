"""Three short documents at a time, invented for this comparison, and a question about each of them.

They speak of different things, so that a small model can tell which of them is asked about. Nothing in them
can be known from elsewhere.
"""

__all__ = ["DOCUMENTS"]

DOCUMENTS = (
    (
        ("The bakery on Mill Street sells bread and honey.", "What does the bakery sell?", "honey"),
        ("The ferry to the island costs nine euros.", "How much does the ferry cost?", "nine"),
        ("The swimming pool is closed on Monday.", "On which day is the swimming pool closed?", "Monday"),
    ),
    (
        ("The old bridge was painted green last year.", "Which colour is the old bridge?", "green"),
        ("The museum is next to the harbour.", "Where is the museum?", "harbour"),
        ("The mayor owns a white boat.", "What does the mayor own?", "boat"),
    ),
    (
        (
            "The train to the coast leaves from platform seven.",
            "From which platform does the train leave?",
            "seven",
        ),
        ("The school choir sings in Latin.", "In which language does the school choir sing?", "Latin"),
        ("The market sells cheese on Friday.", "What does the market sell?", "cheese"),
    ),
    (
        ("The lighthouse was built in 1842.", "When was the lighthouse built?", "1842"),
        ("The winner of the race received a bicycle.", "What did the winner of the race receive?", "bicycle"),
        ("The hotel by the lake serves pancakes.", "What does the hotel by the lake serve?", "pancakes"),
    ),
    (
        ("The parcel was sent from Lisbon.", "Where was the parcel sent from?", "Lisbon"),
        ("The tower is made of copper.", "What is the tower made of?", "copper"),
        ("The concert begins after sunset.", "When does the concert begin?", "sunset"),
    ),
    (
        ("Clara works as a pilot.", "What does Clara work as?", "pilot"),
        ("The key is under the red carpet.", "Where is the key?", "carpet"),
        ("The letter was written by Arthur.", "Who wrote the letter?", "Arthur"),
    ),
)
"""Groups of three: a document, a question about it, and the word that answers it."""
