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


def cite(loaded, documents, question, new_tokens):
    network, tokenizer = loaded
    partitioner = Documents(documents)
    citer = ContextCiter(
        network,
        tokenizer,
        partitioner.context,
        question,
        partitioner=partitioner,
        prompt_template="Context:\n{context}\n\nQuestion: {query}",
        generate_kwargs={"max_new_tokens": new_tokens, "do_sample": False},
    )
    return citer.get_attributions(verbose=False), citer.response


METHODS = {}
CITING = {"64 ablations": cite}
