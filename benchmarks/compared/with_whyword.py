"""whyword, by the protocol of its peers."""

import whyword


def load(folder):
    return whyword.load(folder, start="none")  # the ids begin with the start of text


def flow(model, ids, target, foil):
    explained = whyword.explain(model, ids, target=target, foil=foil)
    return explained.scores, explained.bias[explained.traced.depth]


def logit(model, ids, target, foil):
    explained = whyword.explain(model, ids, target=target, foil=foil, method="logit")
    return explained.scores, add_up_rest(explained.ledger)


def alti_logit(model, ids, target, foil):
    explained = whyword.explain(model, ids, target=target, foil=foil, method="alti-logit")
    return explained.scores, add_up_rest(explained.ledger)


def add_up_rest(ledger):
    biases = ledger.attention_bias.sum() + ledger.norm_bias + ledger.unembedding_bias
    return ledger.embedding + ledger.mlp.sum() + biases


def answer(model, documents, question, new_tokens):
    asked = whyword.fill(
        "Context:\n{documents}\n\nQuestion: {question}", documents=documents, question=question
    )
    prompt = [{"role": "user", "content": asked}]
    return whyword.explain_continuation(model, prompt, foil=None, new_tokens=new_tokens)


def cite_answer(model, documents, question, value, new_tokens):
    answered = answer(model, documents, question, new_tokens)
    table = answered.by(columns="part")
    places = [place for place, column in enumerate(table.columns) if column.source]
    return {"whole answer": [sum(row.scores[place] for row in table.rows) for place in places]}, answered.text


def cite_value(model, documents, question, value, new_tokens):
    answered = answer(model, documents, question, new_tokens)
    start = answered.text.find(value)
    if start < 0:
        return {}, answered.text
    parts = answered.sum(chars=(start, start + len(value))).by("part")
    return {"value alone": [parts[f"documents[{place}]"] for place in range(len(documents))]}, answered.text


METHODS = {"flow": flow, "logit": logit, "alti-logit": alti_logit}
CITING = {"flow of the answer": cite_answer, "flow of the value": cite_value}
