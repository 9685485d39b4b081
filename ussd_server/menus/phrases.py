"""The built-in sentences of the engine, in three languages; other languages get English."""

from __future__ import annotations

LANGUAGE_NAMES = {"en": "English", "lg": "Luganda", "sw": "Kiswahili"}

PHRASES = {
    "back": {"en": "Back", "lg": "Ddayo", "sw": "Rudi"},
    "home": {"en": "Home", "lg": "Entandikwa", "sw": "Mwanzo"},
    "more": {"en": "More", "lg": "Ebisingawo", "sw": "Zaidi"},
    "prev": {"en": "Prev", "lg": "Emabega", "sw": "Nyuma"},
    "yes": {"en": "Yes", "lg": "Yee", "sw": "Ndiyo"},
    "no": {"en": "No", "lg": "Nedda", "sw": "Hapana"},
    "continue": {"en": "Continue", "lg": "Genda mu maaso", "sw": "Endelea"},
    "menu": {"en": "Menu", "lg": "Menyu", "sw": "Menyu"},
    "start_again": {"en": "Start again", "lg": "Tandika buto", "sw": "Anza upya"},
    "choose_language": {"en": "Choose a language", "lg": "Londa olulimi", "sw": "Chagua lugha"},
    "empty_list": {"en": "Nothing to show.", "lg": "Tewali kya kulaga.", "sw": "Hakuna cha kuonyesha."},
    "invalid_choice": {"en": "Invalid choice.", "lg": "Okulonda si kutuufu.", "sw": "Chaguo si sahihi."},
    "invalid_entry": {"en": "Invalid entry.", "lg": "Ky'owandiise si kituufu.", "sw": "Ingizo si sahihi."},
    "invalid_amount": {
        "en": "Enter whole shillings, {min} to {max}.",
        "lg": "Wandiika ssente, {min} okutuuka ku {max}.",
        "sw": "Andika kiasi, {min} hadi {max}.",
    },
    "invalid_phone": {
        "en": "Enter a phone number like 0772123456.",
        "lg": "Wandiika ennamba nga 0772123456.",
        "sw": "Andika namba kama 0772123456.",
    },
    "invalid_date": {
        "en": "Enter a date like 31/12/2026.",
        "lg": "Wandiika olunaku nga 31/12/2026.",
        "sw": "Andika tarehe kama 31/12/2026.",
    },
    "pin_new": {
        "en": "Choose a new PIN of {length} digits",
        "lg": "Londa PIN empya ya miwendo {length}",
        "sw": "Chagua PIN mpya ya tarakimu {length}",
    },
    "pin_again": {"en": "Enter the new PIN again", "lg": "Ddamu PIN empya", "sw": "Ingiza PIN mpya tena"},
    "pin_length": {
        "en": "A PIN has {length} digits.",
        "lg": "PIN erina emiwendo {length}.",
        "sw": "PIN ina tarakimu {length}.",
    },
    "pin_simple": {
        "en": "That PIN is too easy to guess.",
        "lg": "PIN eyo nnyangu okuteebereza.",
        "sw": "PIN hiyo ni rahisi kukisia.",
    },
    "pin_differs": {
        "en": "The two PINs differ.",
        "lg": "PIN ebbiri tezifaanagana.",
        "sw": "PIN mbili hazifanani.",
    },
    "pin_wrong": {
        "en": "Wrong PIN. Tries left: {left}.",
        "lg": "PIN si ntuufu. Osigazza emirundi {left}.",
        "sw": "PIN si sahihi. Umebakiza majaribio {left}.",
    },
    "resume": {
        "en": "Continue where you stopped?",
        "lg": "Ogenda mu maaso we wakomye?",
        "sw": "Endelea ulipoishia?",
    },
    # `{party}` is empty, or one of the next two with a space before it.
    "payment_succeeded": {
        "en": "Your payment of UGX {amount}{party} succeeded.",
        "lg": "Okusasula kwo okwa UGX {amount}{party} kuwedde.",
        "sw": "Malipo yako ya UGX {amount}{party} yamefaulu.",
    },
    "payment_failed": {
        "en": "Your payment of UGX {amount}{party} failed.",
        "lg": "Okusasula kwo okwa UGX {amount}{party} kulemye.",
        "sw": "Malipo yako ya UGX {amount}{party} yameshindwa.",
    },
    "paid_to": {"en": " to {name}", "lg": " eri {name}", "sw": " kwa {name}"},
    "paid_by": {"en": " from {name}", "lg": " okuva mu {name}", "sw": " kutoka {name}"},
    "payment_processing": {
        "en": "Your payment is being processed.",
        "lg": "Okusasula kwo kukolebwako.",
        "sw": "Malipo yako yanashughulikiwa.",
    },
    "payment_pending": {
        "en": "Your payment of UGX {amount}{party} is being processed.",
        "lg": "Okusasula kwo okwa UGX {amount}{party} kukolebwako.",
        "sw": "Malipo yako ya UGX {amount}{party} yanashughulikiwa.",
    },
    "trouble": {
        "en": "Sorry, this did not work. Please try again later.",
        "lg": "Nsonyiwa, tekisobose. Gezaako nate oluvannyuma.",
        "sw": "Samahani, imeshindikana. Jaribu tena baadaye.",
    },
}


def phrase(key: str, language: str, **values: str) -> str:
    """Return the sentence `key` in `language`, with its placeholders filled from `values`."""
    sentences = PHRASES[key]
    return sentences.get(language, sentences["en"]).format(**values)
