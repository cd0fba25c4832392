"""ContextCite: which document an answer is taken from, by ablations and a sparse linear model of them."""

from context_cite import ContextCiter
from context_cite.context_partitioner import BaseContextPartitioner
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


class Documents(BaseContextPartitioner):
    def __init__(self, documents):
        super().__init__("\n\n".join(documents))
        self.documents = documents

    @property
    def num_sources(self):
        return len(self.documents)

    def split_context(self):
        pass

    def get_source(self, index):
        return self.documents[index]

    def get_context(self, mask=None):
        kept = [True] * len(self.documents) if mask is None else mask
        return "\n\n".join(text for text, keep in zip(self.documents, kept, strict=True) if keep)


def cite(loaded, documents, question, value, new_tokens, ablations):
    network, tokenizer = loaded
    partitioner = Documents(documents)
    citer = ContextCiter(
        network,
        tokenizer,
        partitioner.context,
        question,
        num_ablations=ablations,
        partitioner=partitioner,
        prompt_template="Context:\n{context}\n\nQuestion: {query}",
        generate_kwargs={"max_new_tokens": new_tokens, "do_sample": False},
    )
    scores = {"whole answer": citer.get_attributions(verbose=False)}
    start = citer.response.find(value)
    if start >= 0:
        scores["value alone"] = citer.get_attributions(start, start + len(value), verbose=False)
    return scores, citer.response


def cite_by_64(loaded, documents, question, value, new_tokens):
    return cite(loaded, documents, question, value, new_tokens, 64)


def cite_by_16(loaded, documents, question, value, new_tokens):
    return cite(loaded, documents, question, value, new_tokens, 16)


METHODS = {}
CITING = {"64 ablations": cite_by_64, "16 ablations": cite_by_16}
