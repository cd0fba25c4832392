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


def cite(model, documents, question, new_tokens):
    asked = whyword.fill(
        "Context:\n{documents}\n\nQuestion: {question}", documents=documents, question=question
    )
    prompt = [{"role": "user", "content": asked}]
    answer = whyword.explain_continuation(model, prompt, foil=None, new_tokens=new_tokens)
    table = answer.by(columns="part")
    places = [place for place, column in enumerate(table.columns) if column.source]
    return [sum(row.scores[place] for row in table.rows) for place in places], table.answer


METHODS = {"flow": flow, "logit": logit, "alti-logit": alti_logit}
CITING = {"flow": cite}
