"""What a session of two people costs with agents: model calls and prompt tokens, tools included."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.models import CharacterTokenCounter
from reme_core.ports import ChatRequest, ChatResult
from tests.support.rule_model import calls, say, shown

MESSAGES, MAX_CALLS, MAX_PROMPT_TOKENS = 20, 4, 8000
U: dict[str, Any] = {"user_id": "u"}


@dataclass(frozen=True)
class Session:
    """Two people who tell each other about their week, one of them in the role of an assistant, as chats are kept."""

    people: tuple[str, str]
    said: tuple[str, ...]
    known: str

    @property
    def messages(self) -> list[dict[str, str]]:
        return [
            {
                "role": "assistant" if place % 2 else "user",
                "name": self.people[place % 2],
                "content": text,
                "created_at": f"2024-03-04T18:{place:02d}:00Z",
            }
            for place, text in enumerate(self.said)
        ]

    def memories(self, count: int) -> list[dict[str, Any]]:
        return [
            {"content": self.known.format(name=name, number=number), "memory_target": name}
            for name in self.people
            for number in range(count)
        ]


ENGLISH = Session(
    people=("Ana", "Ben"),
    said=(
        "Hey Ben! Long time no see. How did your first half marathon go, did the new shoes hold up?",
        "Hey Ana! It was great, two hours and four minutes. My knee is a bit sore now, so no running this week.",
        "That's really fast for a first one! Did your sister come to cheer you on, as she had promised?",
        "She did, with both of the kids and a huge banner. I nearly cried at the finish, to be honest.",
        "Aww, that's so sweet of them. I wish my brother lived close enough for something like that.",
        "Is Rui still up in Oslo? I thought that he wanted to move back home sometime after the summer.",
        "He got a better offer from the harbour company there last month, so he stays until 2026 at least.",
        "Oh, good for him. And how is the pottery class going that you signed up for back in January?",
        "I love it! I made four bowls and a very crooked vase. [shares a photo of blue bowls on a shelf]",
        "Those look lovely, I like that blue. Is it the glaze you mentioned, or are they painted by hand?",
        "It's the glaze. Working with clay clears my head after work, it's better than any meditation app.",
        "I can imagine. I've been reading more instead, right now a novel about the lighthouse keepers.",
        "The one by the Icelandic author? My neighbour keeps telling everyone at the bakery about it.",
        "Yes, exactly that one. I can lend it to you when I'm through with it, maybe by the end of March.",
        "Please do! By the way, I finally quit the agency. My last day there was on Friday the first.",
        "Wow, congratulations! So are you really going to open the workshop that you always talk about?",
        "That's the plan. I've looked at two places near the old market, one has a kiln in it already.",
        "Let me know if you need someone to paint walls. I'm off from the school for two weeks at Easter.",
        "I'll take you up on that, and I'll pay you in crooked vases. Dinner on Saturday, at my place?",
        "Deal. I'll bring the soup from my grandmother's recipe, the one with the lentils. See you then!",
    ),
    known="{name} told about thing number {number}, which was a small thing for the house (12 February 2024)",
)
CHINESE = Session(
    people=("小安", "小本"),
    said=(
        "小本，好久不见！你第一次跑半马怎么样？新鞋合脚吗？",
        "很好，2小时04分跑完的。不过膝盖有点疼，这周就不跑了。",
        "第一次就这么快！你姐姐有没有像她说的那样来给你加油？",
        "来了，带着两个孩子，还举着一条大横幅，我在终点差点哭了。",
        "真好。我弟弟要是住得近一点就好了，也能这样来看我。",
        "小瑞还在奥斯陆吗？我以为他夏天以后就想搬回来。",
        "上个月那边的港口公司给了他更好的职位，至少待到2026年。",
        "那太好了。你一月报的陶艺课上得怎么样？",
        "我太喜欢了！做了四个碗和一个歪歪的花瓶。[分享照片：架子上的蓝色碗]",
        "真好看，我喜欢那种蓝。是你说的釉，还是手绘的？",
        "是釉。下班以后捏泥能让我静下来，比什么冥想都管用。",
        "能想象。我最近看书多，正在看一本讲灯塔看守人的小说。",
        "是那位冰岛作家写的吗？我邻居在面包店见人就推荐。",
        "就是那本。等我看完借给你，大概三月底吧。",
        "好啊！对了，我终于从广告公司辞职了，上周五一号是最后一天。",
        "恭喜！那你真的要开一直说的那个工作室吗？",
        "是这么打算的。看了老市场附近的两处，有一处已经有窑了。",
        "要是需要人刷墙就叫我，复活节学校放两周假。",
        "那就说定了，用歪花瓶当工钱。周六来我家吃晚饭吗？",
        "好。我带奶奶的扁豆汤来，到时候见！",
    ),
    known="{name}讲过第{number}件事，是家里的一件小东西（2024年2月12日）",
)


class Capable:
    """Does what the prompts want: all that it calls stands in one answer, eight new memories for each person."""

    def __init__(self, people: tuple[str, ...]) -> None:
        self.people = people
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> ChatResult:
        self.requests.append(request)
        if any(message.result_ids for message in request.messages):
            return ChatResult(message=say("done"))
        named = [{"memory_type": "personal", "memory_target": name} for name in self.people]
        if "hands_off" in {tool.name for tool in request.tools}:
            return ChatResult(
                message=calls(
                    ("add_meta_memory", {"meta_memories": named}),
                    ("hands_off", {"memory_tasks": named}),
                    ("add_summary_memory", {"summary_memory": f"{' and '.join(self.people)} talked on 4 March 2024."}),
                )
            )
        first = request.messages[1].text.splitlines()[0]
        [person] = [name for name in self.people if f'"{name}"' in first]
        lines = [line for line in shown(request, "conversation") if line["by"] == person]
        new = [{"memory_content": f"{person}: {line['text']}", "valid_from": line["at"][:10]} for line in lines[:8]]
        return ChatResult(message=calls(("add_memory", {"memories": new})))

    @property
    def prompt_tokens(self) -> int:
        count = CharacterTokenCounter().count
        told = [message.full_text for request in self.requests for message in request.messages]
        offered = [
            json.dumps([tool.name, tool.description, dict(tool.parameters)], ensure_ascii=False)
            for request in self.requests
            for tool in request.tools
        ]
        return sum(map(count, told)) + sum(map(count, offered))


@pytest.mark.parametrize("session", [ENGLISH, CHINESE], ids=["en", "zh"])
@pytest.mark.parametrize("known", [0, 15], ids=["an empty store", "fifteen memories of each"])
async def test_a_session_of_two_people_takes_four_calls_and_eight_thousand_prompt_tokens_at_most(
    tmp_path: Path, session: Session, known: int
) -> None:
    assert len(session.messages) == MESSAGES
    model = Capable(session.people)
    async with ReMe("space", tmp_path, llm=model, embedding=None, use_agentic_mode=True) as memory:
        if known:
            await memory.add_memories(session.memories(known), **U)
        result = await memory.summary(session.messages, **U)
        assert len(result.memories) == 2 * 8 + 1
        assert result.job_ids == ()
    assert len(model.requests) <= MAX_CALLS
    assert model.prompt_tokens <= MAX_PROMPT_TOKENS, model.prompt_tokens
    assert sum(len(shown(request, "memories")) for request in model.requests) == 2 * known
