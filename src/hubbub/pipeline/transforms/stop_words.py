"""Words that say nothing of what a message is about, in the languages of most of our users."""

from __future__ import annotations

_ENGLISH = """
about above after again all also and any are aren because been before being below between both but
can cannot could did does doing don down during each few for from further had has have having her
here hers herself him himself his how into its itself just let more most myself nor not now off
once only other our ours ourselves out over own same she should some such than that the their
theirs them themselves then there these they this those through too under until very was were what
when where which while who whom why will with would you your yours yourself yourselves
"""
_PORTUGUESE = """
aos aquela aquele aqui até como com das dela dele deles depois dos ela elas ele eles entre era
essa esse esta este está estão eram foi foram isso isto mais mas mesmo meu minha muito nas nem nos
nossa nosso não para pela pelo por porque quando que quem seja sem ser seu sua são também tem têm
uma umas uns você vocês
"""
_GERMAN = """
aber alle als also auch auf aus bei bin bis bist dann das dass dein dem den der des dich die dies
diese dieser doch dort durch ein eine einem einen einer eines euch für hat hatte habe haben hier
ich ihm ihn ihr ihre ist jetzt kann kein keine man mein mich mir mit nach nicht noch nur oder ohne
sehr sein seine sich sie sind und uns unter vom von vor war waren was weil wenn wer wie wir wird
wurde zum zur über
"""
_SPANISH_AND_FRENCH = """
algo ante antes como con contra cual cuando del desde donde dos ella ellas ellos entre era eres
esa ese eso esta este esto está fue hay las los más mismo muy nada nos otra otro para pero poco
por porque que quien sin sobre son sus también tiene todo una uno unos avec aux ces cette dans des
elle est eux fait ici ils leur leurs lui mais mes moi mon nos notre nous ont par pas pour qui sans
ses son sont sur tes toi ton très une vos votre vous été être
"""

STOP_WORDS = tuple(
    sorted(
        {*_ENGLISH.split(), *_PORTUGUESE.split(), *_GERMAN.split(), *_SPANISH_AND_FRENCH.split()}
    )
)
