"""The sentences of a letter in each language: what was done, how it is known, what remains.

The frame around them (`letters/`) is a template that may be replaced; these are not, since each
goes with one fact of the record. {whom} is the person, or the people of one request; {parties},
{places}, {day} and {reason} are filled in. `this information` is named at the letter's beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

Language = Literal["en", "de"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

SENTENCES: dict[Language, dict[str, str]] = {
    "en": {
        "subject": "Your request for erasure, received on {day}",
        "extension-subject": "More time for your request for erasure, received on {day}",
        "what-people": "the outcome that is recorded about you and from which our prediction "
        "models learnt",
        "what-people-asked": "any outcome that may be recorded about you and from which our "
        "prediction models may have learnt",
        "what-labels": "every record of the outcome {labels} from which our prediction models "
        "learnt",
        "you": "you",
        "people": "the people whose requests we handled together, you among them,",
        "and": "and",
        "quoted": "“{label}”",
        # What came of it.
        "pending": "We are working on it. Nothing has been changed so far.",
        "ended": "We did not carry it out.",
        "failed": "We tried to carry it out, and our tests show that this did not succeed.",
        "done": "We carried it out as far as this letter says.",
        # What was done.
        "refit": "The model with which we make predictions was computed anew without this "
        "information. The models of our partners were made without it from the beginning.",
        "restart": "All models, ours and those of our partners, were trained anew without this "
        "information.",
        "retrain": "All models, ours and those of our partners, were trained again without this "
        "information.",
        "changed-hidden": "The model with which we make predictions was changed in order to forget "
        "this information.",
        "changed-open": "The model with which we make predictions was changed in order to forget "
        "this information, and the models of our partners as far as the method reaches them.",
        "in-use": "The new models have been in use since {day}.",
        "purged-own": "We removed the versions of our models from before that.",
        "purged-partners": "{parties} confirmed that the versions from before that were removed "
        "there.",
        "table-cleared": "In the table from which our models learn, this information is empty now.",
        # How it is known.
        "exact": "This follows from the way in which the models are made, and not from a test: in "
        "the same computing environment the result is, to the last bit, that of a training that "
        "never had this information. It can be computed again to check it.",
        "people-answers": "In our tests the predictions about {whom} look like those of models "
        "that were trained without this information.",
        "people-top": "In our tests the predictions about {whom} look like those of models that "
        "were trained without this information, and an attack on the scores behind them did not "
        "recognise {whom} any more.",
        "people-bottoms": "In none of our tests did the predictions, our own model or the models "
        "of our partners know more of this information than models that were trained without it.",
        "labels-answers": "Our model no longer gives this outcome as a prediction.",
        "labels-top": "Our model no longer gives this outcome as a prediction, and our tests did "
        "not recognise it in that model any more.",
        "labels-bottoms": "Our tests did not recognise this outcome any more in the predictions, "
        "in our own model or in the models of our partners.",
        "certificate": "What was done is recorded in a signed certificate with the number "
        "{request}.",
        # What was not done, and what remains.
        "reason": "The reason is: {reason}",
        "reason-missing": "[Please add the reason here.]",
        "unchanged": "Because of your request nothing was changed in our models.",
        "not-none": "Our tests show that this information is still there, or that the models lost "
        "too much else. What you asked for was not achieved.",
        "not-stated": "The certificate does not say how far the models have forgotten this "
        "information, so we state nothing about it.",
        "not-attested": "Not every partner has signed for its model, so we state nothing about how "
        "far the models have forgotten this information.",
        "not-certified": "There is no signed certificate of this yet, so we state nothing about "
        "how far the models have forgotten this information.",
        "not-people-answers": "That the models behind these predictions lost what they had learnt "
        "was not shown.",
        "not-people-top": "That the models of our partners lost what they had learnt was not "
        "shown.",
        "not-labels-answers": "Whoever has our model can make this outcome visible again, and the "
        "models of our partners can still recognise it.",
        "not-labels-top": "The models of our partners can still recognise it, and our model is not "
        "the same as one that was trained again without it.",
        "tests-end": "Tests are no proof: somebody may find more by a way that nobody has tried.",
        "by-word": "That the models of some partners were made without this information rests on "
        "our own word.",
        "partners-know": "Our partners could tell from this work what it was about.",
        "unsigned": "The certificate was not signed by {parties}.",
        "unpurged-own": "It is not recorded that we removed the versions of our models from before "
        "the change, so they may still exist here.",
        "unpurged-partners": "{parties} did not confirm that the versions from before the change "
        "were removed there, so they may still exist.",
        "unpurged-unknown": "It is not recorded that our partners removed the versions of their "
        "models from before the change.",
        "table-left": "The table from which our models learnt was not cleared of this information.",
        "table-unknown": "Whether the table from which our models learnt still holds this "
        "information is not recorded.",
        "copies-left": "There are more places where it may still lie: {places}.",
        "commitments": "commitments to labels of rows",
        "digest": "digest of all labels",
        "retrained": "what retrained models answered, with labels",
        "staged": "weights of an open request",
        "curves": "curves of training",
        "messages": "messages that it received and sent",
        "exported": "exported top of version {version}",
        "evidence": "We keep a record of this request, which says what it was about, as evidence "
        "of what was done.",
        "features": "Other information about you, which the models take as their input, was no "
        "part of this and stays. Predictions about you can still be made from it.",
        "out-of-reach": "Backups, exports, predictions that were already given out and copies that "
        "others made were not reached by this.",
        # Dates.
        "late": "This letter was due on {day} and comes late; we apologise.",
        "due": "The term that the law gives us ends on {day}.",
        "extended": "We had extended the term to {day}, for this reason: {reason}",
    },
    "de": {
        "subject": "Ihr Antrag auf Löschung, eingegangen am {day}",
        "extension-subject": "Mehr Zeit für Ihren Antrag auf Löschung, eingegangen am {day}",
        "what-people": "das zu Ihnen gespeicherte Ergebnis, aus dem unsere Vorhersagemodelle "
        "gelernt haben",
        "what-people-asked": "ein Ergebnis, das zu Ihnen gespeichert sein und aus dem unsere "
        "Vorhersagemodelle gelernt haben kann",
        "what-labels": "alle Einträge mit dem Ergebnis {labels}, aus denen unsere "
        "Vorhersagemodelle gelernt haben",
        "you": "Sie",
        "people": "die Personen, deren Anträge wir gemeinsam bearbeitet haben, darunter Sie,",
        "and": "und",
        "quoted": "„{label}“",
        "pending": "Wir bearbeiten ihn. Bisher wurde nichts geändert.",
        "ended": "Wir haben ihn nicht ausgeführt.",
        "failed": "Wir haben versucht, ihn auszuführen; unsere Prüfungen zeigen, dass dies nicht "
        "gelungen ist.",
        "done": "Wir haben ihn so weit ausgeführt, wie es in diesem Schreiben steht.",
        "refit": "Das Modell, mit dem wir Vorhersagen treffen, wurde ohne diese Angaben neu "
        "berechnet. Die Modelle unserer Partner wurden von Anfang an ohne sie erstellt.",
        "restart": "Alle Modelle, unsere und die unserer Partner, wurden ohne diese Angaben von "
        "Neuem trainiert.",
        "retrain": "Alle Modelle, unsere und die unserer Partner, wurden ohne diese Angaben noch "
        "einmal trainiert.",
        "changed-hidden": "Das Modell, mit dem wir Vorhersagen treffen, wurde geändert, um diese "
        "Angaben zu vergessen.",
        "changed-open": "Das Modell, mit dem wir Vorhersagen treffen, wurde geändert, um diese "
        "Angaben zu vergessen, ebenso die Modelle unserer Partner, soweit das Verfahren sie "
        "erreicht.",
        "in-use": "Die neuen Modelle sind seit dem {day} in Gebrauch.",
        "purged-own": "Die Fassungen unserer Modelle aus der Zeit davor haben wir entfernt.",
        "purged-partners": "{parties}: Von dort wurde bestätigt, dass die Fassungen aus der Zeit "
        "davor entfernt sind.",
        "table-cleared": "In der Tabelle, aus der unsere Modelle lernen, sind diese Angaben jetzt "
        "leer.",
        "exact": "Das folgt aus der Art, wie die Modelle erstellt werden, und nicht aus einer "
        "Prüfung: In derselben Rechenumgebung ist das Ergebnis bis aufs letzte Bit das eines "
        "Trainings, das diese Angaben nie hatte. Zur Kontrolle kann es noch einmal berechnet "
        "werden.",
        "people-answers": "In unseren Prüfungen sehen die Vorhersagen über {whom} aus wie die von "
        "Modellen, die ohne diese Angaben trainiert wurden.",
        "people-top": "In unseren Prüfungen sehen die Vorhersagen über {whom} aus wie die von "
        "Modellen, die ohne diese Angaben trainiert wurden, und ein Angriff auf die Werte hinter "
        "den Vorhersagen hat {whom} nicht mehr erkannt.",
        "people-bottoms": "In keiner unserer Prüfungen wussten die Vorhersagen, unser eigenes "
        "Modell oder die Modelle unserer Partner mehr von diesen Angaben als Modelle, die ohne sie "
        "trainiert wurden.",
        "labels-answers": "Unser Modell gibt dieses Ergebnis nicht mehr als Vorhersage aus.",
        "labels-top": "Unser Modell gibt dieses Ergebnis nicht mehr als Vorhersage aus, und unsere "
        "Prüfungen haben es in diesem Modell nicht mehr erkannt.",
        "labels-bottoms": "Unsere Prüfungen haben dieses Ergebnis weder in den Vorhersagen noch in "
        "unserem eigenen Modell noch in den Modellen unserer Partner mehr erkannt.",
        "certificate": "Was getan wurde, steht in einer unterzeichneten Bescheinigung mit der "
        "Nummer {request}.",
        "reason": "Der Grund ist: {reason}",
        "reason-missing": "[Bitte hier den Grund ergänzen.]",
        "unchanged": "Wegen Ihres Antrags wurde an unseren Modellen nichts geändert.",
        "not-none": "Unsere Prüfungen zeigen, dass diese Angaben noch da sind oder dass die "
        "Modelle zu viel anderes verloren haben. Was Sie verlangt haben, wurde nicht erreicht.",
        "not-stated": "Die Bescheinigung sagt nicht, wie weit die Modelle diese Angaben vergessen "
        "haben; darüber sagen wir deshalb nichts.",
        "not-attested": "Nicht alle Partner haben für ihr Modell unterzeichnet; wie weit die "
        "Modelle diese Angaben vergessen haben, darüber sagen wir deshalb nichts.",
        "not-certified": "Eine unterzeichnete Bescheinigung gibt es noch nicht; wie weit die "
        "Modelle diese Angaben vergessen haben, darüber sagen wir deshalb nichts.",
        "not-people-answers": "Dass die Modelle hinter diesen Vorhersagen verloren haben, was sie "
        "gelernt hatten, wurde nicht gezeigt.",
        "not-people-top": "Dass die Modelle unserer Partner verloren haben, was sie gelernt "
        "hatten, wurde nicht gezeigt.",
        "not-labels-answers": "Wer unser Modell hat, kann dieses Ergebnis wieder sichtbar machen, "
        "und die Modelle unserer Partner können es noch erkennen.",
        "not-labels-top": "Die Modelle unserer Partner können es noch erkennen, und unser Modell "
        "ist nicht dasselbe wie eines, das ohne diese Angaben noch einmal trainiert wurde.",
        "tests-end": "Prüfungen sind kein Beweis: Jemand kann auf einem Weg, den noch niemand "
        "versucht hat, mehr finden.",
        "by-word": "Dass die Modelle einiger Partner ohne diese Angaben erstellt wurden, beruht "
        "auf unserem eigenen Wort.",
        "partners-know": "Unsere Partner konnten an dieser Arbeit erkennen, worum es ging.",
        "unsigned": "Die Bescheinigung wurde nicht unterzeichnet von {parties}.",
        "unpurged-own": "Dass wir die Fassungen unserer Modelle aus der Zeit vor der Änderung "
        "entfernt haben, ist nicht festgehalten; es kann sie hier noch geben.",
        "unpurged-partners": "{parties}: Von dort wurde nicht bestätigt, dass die Fassungen aus "
        "der Zeit vor der Änderung entfernt sind; es kann sie noch geben.",
        "unpurged-unknown": "Dass unsere Partner die Fassungen ihrer Modelle aus der Zeit vor der "
        "Änderung entfernt haben, ist nicht festgehalten.",
        "table-left": "Aus der Tabelle, aus der unsere Modelle gelernt haben, wurden diese Angaben "
        "nicht entfernt.",
        "table-unknown": "Ob die Tabelle, aus der unsere Modelle gelernt haben, diese Angaben noch "
        "enthält, ist nicht festgehalten.",
        "copies-left": "Es gibt weitere Stellen, an denen sie noch liegen können: {places}.",
        "commitments": "Prüfsummen zu den Ergebnissen einzelner Zeilen",
        "digest": "Prüfsumme über alle Ergebnisse",
        "retrained": "Antworten neu trainierter Modelle, mit Ergebnissen",
        "staged": "Modellgewichte eines offenen Antrags",
        "curves": "Verlaufskurven des Trainings",
        "messages": "empfangene und gesendete Nachrichten",
        "exported": "ausgegebenes Modell der Fassung {version}",
        "evidence": "Als Nachweis behalten wir eine Aufzeichnung dieses Antrags, in der steht, "
        "worum es ging.",
        "features": "Andere Angaben über Sie, die den Modellen als Eingabe dienen, waren nicht "
        "Teil davon und bleiben. Aus ihnen können weiterhin Vorhersagen über Sie getroffen werden.",
        "out-of-reach": "Sicherungskopien, Ausfuhren, bereits herausgegebene Vorhersagen und "
        "Kopien, die andere angefertigt haben, wurden davon nicht erreicht.",
        "late": "Dieses Schreiben war am {day} fällig und kommt zu spät; wir bitten um "
        "Entschuldigung.",
        "due": "Die gesetzliche Frist endet am {day}.",
        "extended": "Wir hatten die Frist bis zum {day} verlängert, aus diesem Grund: {reason}",
    },
}

_MONTHS: dict[Language, tuple[str, ...]] = {
    "en": (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    "de": (
        *("Januar", "Februar", "März", "April", "Mai", "Juni"),
        *("Juli", "August", "September", "Oktober", "November", "Dezember"),
    ),
}


def language_of(text: str) -> Language:
    """Return the language that a word names, English if none."""
    return next((each for each in LANGUAGES if each == text), "en")


@dataclass(frozen=True)
class Words:
    """A language in which sentences are said.

    >>> Words("en").say("late", day=Words("en").day(date(2026, 3, 2)))
    'This letter was due on 2 March 2026 and comes late; we apologise.'
    """

    language: Language

    def say(self, key: str, **values: str) -> str:
        """Return a sentence with what it names filled in."""
        return SENTENCES[self.language][key].format(**values)

    def day(self, day: date) -> str:
        """Return a day as a letter has it.

        >>> Words("de").day(date(2026, 3, 2))
        '2. März 2026'
        """
        month = _MONTHS[self.language][day.month - 1]
        return f"{day.day}{'.' if self.language == 'de' else ''} {month} {day.year}"

    def listed(self, names: Sequence[str]) -> str:
        """Return names in a row.

        >>> Words("de").listed(["bank", "shop", "gym"])
        'bank, shop und gym'
        """
        if len(names) < 2:
            return "".join(names)
        return f"{', '.join(names[:-1])} {self.say('and')} {names[-1]}"
