"""Record the ids of Hugging Face's `tokenizers` for difficult texts: `python tests/week1/record_ids.py`.

The ids are those of the small tokenizer in `tokenizer.json`; they are committed as `token_ids.json`.
"""

import json
from pathlib import Path

FOLDER = Path(__file__).parent

TEXTS = {
    "empty": "",
    "the five tokens": "That is a blue dog",
    "leading space": " dog",
    "spaces at both ends": "  That is  ",
    "accents, composed": "d\u00e9j\u00e0 vu, \u00c5ngstr\u00f6m, \u1eb9\u0301",
    "accents, decomposed": "de\u0301ja\u0300 vu, A\u030angstro\u0308m, e\u0301\u0323",
    "combining marks alone": "\u0301 a\u0327\u0323\u0301 \u20dd",
    "Angstrom and Ohm signs": "\u212b \u2126 \u2160 \ufb01 \u00bd \u00b2",
    "Hangul syllables": "\ud55c\uad6d\uc5b4 \ud30c\ub780 \uac1c",
    "Hangul jamo": "\u1112\u1161\u11ab\u1100\u116e\u11a8",
    "emoji": "\U0001f415 \U0001f436\U0001f499",
    "emoji sequences": "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \u2764\ufe0f\u200d\U0001f525",
    "emoji with a skin tone, keycap": "\U0001f44d\U0001f3fd 1\ufe0f\u20e3",
    "flags": "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
    "flag of Scotland": "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "Chinese": "\u90a3\u662f\u4e00\u53ea\u84dd\u8272\u7684\u72d7\u3002\u90a3\u662f\u4e00\u53ea\u72d7",
    "compatibility ideograph": "\uf900 \u8c48 \U0002f800",
    "Japanese": "\u305d\u308c\u306f\u9752\u3044\u72ac\u3067\u3059 \u304b\u3099\u30ab\u3099",
    "Hebrew": "\u05d6\u05d4 \u05db\u05b6\u05dc\u05b6\u05d1",
    "Arabic": "\u0647\u0630\u0627 \u0643\u0644\u0628 \u0661\u0662\u0663 \u200f\u061c",
    "Hindi": "\u092f\u0939 \u090f\u0915 \u0928\u0940\u0932\u093e \u0915\u0941\u0924\u094d\u0924\u093e \u0958",
    "many spaces": " " * 50 + "x" + " " * 7 + "\n",
    "many newlines": "a\n\n\n\nb\n \n  \n",
    "CRLF": "one\r\ntwo\r\n\r\nthree\r",
    "tabs": "\tif x:\n\t\treturn\t 1",
    "separators U+001C to U+001F": "a\x1cb\x1d\x1d \x1e\x1f c",
    "other white space": "a\x85b\u00a0c \u00a0d\u2028e\u2029f\u3000g\u2009\u200b.\u180e",
    "controls": "\x00\x01\x7f\x80\x9f\u00ad\ufeff",
    "contractions": "it's I'll you've we'd don't they're I'm",
    "contractions in capitals": "IT'S I'LL YOU'VE WE'D DON'T THEY'RE I'M O'Tool 'Tis",
    "contractions with a long s": "it'\u017f \u0130'S 'LL\u2019s",
    "digits": "1234567 3.14 1,000 \u0664\u0662 \u2460",
    "punctuation": "Hello, world!!! (yes) \u2014 \u00abno\u00bb ...\n\n?!",
    "code": 'for i in range(10):\n    print(f"{i:>3}")  # woof\n',
    "special tokens": "<|im_start|>user\nIs that a dog?<|im_end|>\n<|im_start|>assistant\n",
    "special tokens side by side": "<|im_end|><|im_end|><|endoftext|>",
    "special tokens in words": "dog<|im_end|>dog e<|im_end|>\u0301 a<|im_end|> b",
    "not quite special": "<|im_start <|im_start| > <|IM_START|> <|im_|im_end|> <<|im_end|>>",
    "outside the first plane": "\U00010000 \U0001d400 \U0010ffff \ue000",
    "long word": "dog" * 40 + "\u72d7" * 20,
}


if __name__ == "__main__":
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    rows = [json.dumps({"name": name, "text": text, "ids": tokenizer.encode(text).ids}) for name, text in TEXTS.items()]
    (FOLDER / "token_ids.json").write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
